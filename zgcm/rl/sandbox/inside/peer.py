"""Calls between the tests' process and the candidate's: each holds the other's objects by handle.

One class serves both sides. The side of the tests trusts nothing: it offers the candidate only what a test
passed to it (`offers`), and a candidate's object never decides a comparison with a value of the test's
(`Far`): it has seen that value when it answers.
"""

from __future__ import annotations

import builtins
import functools

from . import wire
from .wire import MUTABLE, Gone, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in wire
    from collections.abc import Callable, Sequence
    from typing import Any

COMPARE = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__")
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor")
ARITHMETIC = tuple(f"__{side}{name}__" for name in (*_BINARY, "lshift", "rshift") for side in ("", "r", "i"))
SCALAR = (
    *("__abs__", "__float__", "__int__", "__index__", "__complex__", "__bool__", "__len__", "__round__"),
    *("__hash__", "__str__", "__repr__", "__format__", "__trunc__", "__floor__", "__ceil__"),
)
OTHER = (
    *("__neg__", "__pos__", "__invert__", "__iter__", "__next__", "__reversed__", "__getitem__"),
    *("__setitem__", "__delitem__", "__call__", "__enter__", "__exit__"),
)
OPERATORS = (*COMPARE, *ARITHMETIC, *SCALAR, *OTHER)
PREDICATES = (
    *("__eq__", "__ne__", "startswith", "endswith", "isdisjoint", "issubset", "issuperset", "count", "index"),
    *("find", "rfind", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
    *("isnumeric", "isprintable", "isspace", "istitle", "isupper", "is_integer"),
)
"""Methods by which plain data answer questions about themselves: a test that asks them expects plain data."""
SNAPSHOTS = (tuple, str, int, float, frozenset, bytes)
"""Subclasses of these (named tuples, IntEnum) compare as the plain value that they hold."""


ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)


def ends_iteration(operation: str, operands: Sequence[Any]) -> bool:
    """Whether StopIteration is an answer to what was asked. Raised by anything else it would end, in silence,
    the test's own loop over `map(f, cases)`: no case would be looked at."""
    return operation == "operator" and len(operands) > 1 and operands[1] == "__next__"


class Far:
    """An object of the other side. Operators exist as far as its class defines them (`_class`)."""

    def __init__(self, peer: Peer, handle: int, about: dict[str, Any]) -> None:
        self.__dict__.update(_peer=peer, _handle=handle, _about=about, _own=False, _seen=False)

    def __getattr__(self, name: str) -> Any:
        if self._peer.is_judge and name in PREDICATES and not self._own:
            raise TypeError(f"an object of the candidate's does not answer {name} in place of data")
        return self._peer.request("get", self._handle, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._peer.request("set", self._handle, name, self._peer.encode(value))

    def __delattr__(self, name: str) -> None:
        self._peer.request("del", self._handle, name)

    def __instancecheck__(self, other: Any) -> bool:
        return (
            isinstance(other, Far) and self._peer.request("isinstance", self._handle, other._handle) is True
        )


def _operator(name: str) -> Callable[..., Any]:
    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        peer: Peer = self._peer
        if not peer.is_judge or name in OTHER:
            return peer.call("operator", self, name, arguments, named)
        plain = any(not isinstance(argument, Far) for argument in arguments)
        if name in COMPARE and plain and not self._own:
            if name == "__contains__":
                raise TypeError(
                    "an object of the candidate's does not say whether it contains a value of the test's"
                )
            return NotImplemented
        if name in SCALAR and self._seen:
            raise TypeError("a result that has seen a value of the test's does not turn into a number")
        made = peer.call("operator", self, name, arguments, named)
        if name in ARITHMETIC and made is not NotImplemented:
            seen = self._seen or any(not isinstance(other, Far) or other._seen for other in arguments)
            if seen and not isinstance(made, Far):
                raise TypeError("a result that has seen a value of the test's is no number")
            if seen:
                made.__dict__["_seen"] = True
        return made

    forward.__name__ = name
    return forward


@functools.lru_cache(maxsize=4096)
def _class(names: tuple[str, ...], base: type | None) -> type:
    """A subclass of Far with these operators, or a subclass of a builtin type whose attributes are far."""
    if base is not None:
        return type(base.__name__, (base,), {"__getattr__": Far.__getattr__})
    defined: dict[str, Any] = {name: _operator(name) for name in names}
    if "__eq__" in defined and "__hash__" not in defined:
        defined["__hash__"] = None
    return type("Far", (Far,), defined)


@functools.lru_cache(maxsize=4096)
def _operators_of(kind: type) -> tuple[str, ...]:
    """Those that a class or a parent other than `object` defines."""
    return tuple(
        name
        for name in OPERATORS
        if any(parent.__dict__.get(name) is not None for parent in kind.__mro__ if parent is not object)
    )


class Peer:
    """One end. `offers(object, name, operation)` says what the other end may do to an object of this end."""

    def __init__(self, descriptor: int, is_judge: bool, offers: Callable[[Any, str, str], bool]) -> None:
        self.descriptor = descriptor
        self.is_judge = is_judge
        self.offers = offers
        self.objects: list[Any] = []
        self.handles: dict[int, int] = {}
        self.far: dict[int, Any] = {}
        self.classes: dict[int, type[BaseException]] = {}
        self.violation = ""
        self.find: Callable[[str], Any] = lambda name: _missing(name)

    # ---- values

    def encode(self, value: Any) -> Any:
        return wire.encode(value, self._export)

    def decode(self, message: Any) -> Any:
        try:
            return wire.decode(message, self._import)
        except RecursionError as error:
            raise Violation("a value nested too deep") from error

    def _export(self, value: Any) -> Any:
        kind: Any = type(value)
        far = getattr(value, "__dict__", {}) if isinstance(value, Far) or kind.__name__ in _BASES else {}
        if "_handle" in far:
            return {"home": far["_handle"]}
        if value is NotImplemented:
            return {"no": 1}
        if kind.__name__ == "module":
            raise TypeError("a module is no value")
        name = getattr(value, "__name__", "") if callable(value) and not isinstance(value, Far) else ""
        if isinstance(name, str) and name and getattr(builtins, name, None) is value:
            return {"builtin": name}
        handle = self.handles.get(id(value))
        if handle is None:
            handle = self.handles[id(value)] = len(self.objects)
            self.objects.append(value)
        about: dict[str, Any] = {"h": handle, "m": list(_operators_of(kind)), "name": kind.__name__}
        if isinstance(value, type) and issubclass(value, BaseException):
            about["error"] = [
                value.__name__,
                next(b.__name__ for b in value.__mro__ if b.__module__ == "builtins"),
            ]
        if kind.__name__ == "coroutine":
            about["coroutine"] = True
        base: Any = next((base for base in SNAPSHOTS if isinstance(value, base) and kind is not base), None)
        if base is not None:
            plain = base(tuple.__iter__(value)) if base is tuple else base.__new__(base, value)
            about["value"] = self.encode(plain)
        return about

    def _import(self, message: dict[str, Any]) -> Any:
        match message:
            case {"home": int(handle)}:
                return self._mine(handle)
            case {"no": 1}:
                return NotImplemented
            case {"builtin": str(name)} if hasattr(builtins, name):
                found = getattr(builtins, name)
                if isinstance(found, type) or not self.is_judge:
                    return found
            case {"h": int(handle), "m": list(names)}:
                if handle not in self.far:
                    self.far[handle] = self._proxy(handle, names, message)
                elif isinstance(self.far[handle], Far):
                    self.far[handle].__dict__["_own"] = False
                return self.far[handle]
        raise Violation(f"no value: {str(message)[:80]}")

    def _mine(self, handle: int) -> Any:
        if not 0 <= handle < len(self.objects):
            raise Violation("an unknown handle")
        return self.objects[handle]

    def _proxy(self, handle: int, names: list[Any], about: dict[str, Any]) -> Any:
        if "error" in about:
            name, base = about["error"]
            parent = getattr(builtins, str(base), None)
            if not (isinstance(parent, type) and issubclass(parent, BaseException)):
                raise Violation("no exception")
            self.classes[handle] = type(str(name), (parent,), {"_handle": handle, "__getattr__": _of_cause})
            return self.classes[handle]
        if about.get("coroutine"):
            return self._await(handle)
        known = tuple(name for name in OPERATORS if name in names)
        if "value" not in about:
            return _class(known, None)(self, handle, about)
        value: Any = self.decode(about["value"])
        if type(value) not in SNAPSHOTS:
            raise Violation("no snapshot")
        kind: Any = type(value)
        made = _class((), kind)(value)
        made.__dict__.update(_peer=self, _handle=handle)
        return made

    async def _await(self, handle: int) -> Any:
        return self.request("await", handle)

    # ---- asking

    def call(
        self, operation: str, target: Far, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Call or apply an operator; containers passed change here as they changed there."""
        words = list(named)
        operands = [*arguments, *named.values()]
        sent = [self.encode(operand) for operand in operands]
        return self.request(operation, target._handle, name, sent, words, containers=operands)

    def request(self, operation: str, *operands: Any, containers: Any = ()) -> Any:
        """Ask, serve what the other side asks meanwhile, and return or raise what it answers."""
        wire.send(self.descriptor, [operation, *operands])
        while True:
            try:
                match wire.receive(self.descriptor):
                    case ["return", value, list(changed)]:
                        self._apply(changed, containers)
                        return self.decode(value)
                    case ["raise", error, list(changed)]:
                        self._apply(changed, containers)
                        raised = self._error(error)
                        if isinstance(raised, ENDS) and not ends_iteration(operation, operands):
                            raise RuntimeError(f"the call raised {type(raised).__name__}") from raised
                        raise raised
                    case [str(asked), int(handle), *rest]:
                        self._serve(asked, handle, rest)
                    case other:
                        raise Violation(f"no message: {str(other)[:80]}")
            except Violation as error:
                self.violation = f"the program broke the protocol: {error}"
                raise Gone from error
            except Gone:
                self.violation = self.violation or "the program ended"
                raise

    def _apply(self, changed: list[Any], containers: Any) -> None:
        for place, value in changed:
            if not (isinstance(place, int) and 0 <= place < len(containers)):
                raise Violation("an unknown argument")
            if not isinstance(containers[place], MUTABLE):
                raise Violation("an argument that cannot change")
            wire.update(containers[place], self.decode(value))

    # ---- answering

    def serve(self) -> None:
        """Answer until the other side ends."""
        while True:
            match wire.receive(self.descriptor):
                case [str(asked), int(handle), *rest]:
                    self._serve(asked, handle, rest)
                case other:
                    raise Violation(f"no message: {str(other)[:80]}")

    def _serve(self, asked: str, handle: int, rest: list[Any]) -> None:
        changed: list[Any] = []
        try:
            answer = ["return", self.encode(self._do(asked, handle, rest, changed))]
        except (Gone, Violation):
            raise
        except BaseException as error:
            if self.is_judge and isinstance(error, AssertionError):
                self.violation = "a test failed inside a call of the candidate's"
            answer = ["raise", self._about_error(error)]
        try:
            wire.send(self.descriptor, [*answer, changed])
        except (ValueError, RecursionError) as error:
            wire.send(self.descriptor, ["raise", self._about_error(error), []])

    def _do(self, asked: str, handle: int, rest: list[Any], changed: list[Any]) -> Any:
        if asked == "name":
            return self.find(rest[0])
        mine = self._mine(handle)
        name = rest[0] if rest and isinstance(rest[0], str) else ""
        if not self.offers(mine, name, asked):
            raise AttributeError(f"{name or asked} is not for you")
        if asked == "get":
            return getattr(mine, name)
        if asked == "set":
            return setattr(mine, name, self.decode(rest[1]))
        if asked == "del":
            return delattr(mine, name)
        if asked == "isinstance":
            return isinstance(self._mine(rest[0]), mine)
        if asked == "await":
            import asyncio

            return asyncio.run(mine)
        if asked != "operator" or name not in OPERATORS:
            raise Violation(f"no operation: {asked}")
        _, sent, words = rest
        operands = [self.decode(operand) for operand in sent]
        cut = len(operands) - len(words)
        named = dict(zip(words, operands[cut:], strict=True))
        try:
            if name == "__call__":
                return mine(*operands[:cut], **named)
            return getattr(type(mine), name)(mine, *operands[:cut], **named)
        finally:
            for place, operand in enumerate(operands):
                if isinstance(operand, MUTABLE) and (now := self.encode(operand)) != sent[place]:
                    changed.append([place, now])

    # ---- exceptions

    def _about_error(self, error: BaseException) -> Any:
        kind = type(error)
        if isinstance(getattr(kind, "_handle", None), int) and kind in self.classes.values():
            return {"home": kind._handle, "text": str(error)[:2000]}  # type: ignore[attr-defined]
        known = getattr(builtins, kind.__name__, None) is kind
        try:
            values = [self.encode(value) for value in error.args]
            text = str(error)[:2000]
        except Exception:
            values, text = [], ""
        if known:
            return {"name": kind.__name__, "args": values}
        return {"class": self._export(kind), "args": values, "text": text, "self": self._export(error)}

    def _error(self, about: Any) -> BaseException:
        match about:
            case {"name": str(name), "args": list(values)}:
                kind = getattr(builtins, name, None)
                if isinstance(kind, type) and issubclass(kind, BaseException) and kind is not GeneratorExit:
                    try:
                        return kind(*(self.decode(value) for value in values))
                    except TypeError:
                        return kind() if not issubclass(kind, UnicodeError) else ValueError(name)
            case {"class": dict(described), "args": list(values), "text": str(), "self": dict(itself)}:
                kind = self._import(described)
                if isinstance(kind, type) and issubclass(kind, BaseException):
                    error = kind.__new__(kind)
                    error.args = tuple(self.decode(value) for value in values)
                    error.__dict__["_cause"] = self._import(itself)
                    return error
            case {"home": int(handle), "text": str(text)}:
                kind = self._mine(handle)
                if isinstance(kind, type) and issubclass(kind, BaseException):
                    return kind(text)
        raise Violation("no exception")


def _of_cause(self: Any, name: str) -> Any:
    """Attributes of a caught exception lie on the other side; one made here has none."""
    cause = self.__dict__.get("_cause")
    if cause is None:
        raise AttributeError(name)
    return getattr(cause, name)


def _missing(name: str) -> Any:
    raise NameError(f"name {name!r} is not defined")


_BASES = tuple(base.__name__ for base in SNAPSHOTS)
