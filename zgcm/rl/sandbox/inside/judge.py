"""The tests' process: runs one test against a candidate that lives elsewhere, and says whether it passed.

`main` waits for orders and forks for each test: a fresh process costs a millisecond, not an interpreter's
start. It runs in a jail of its own.
"""

import ast
import builtins
import os
import resource
import signal
import socket
import symtable
import sys
import types
from collections import Counter, deque
from typing import Any

from . import wire
from .peer import Far, Peer
from .wire import Gone, Violation

MEMORY_BYTES = 2 << 30
OF_DATA = frozenset(
    name
    for kind in (str, bytes, bytearray, list, tuple, dict, set, range, int, float, complex, deque, Counter)
    for name in dir(kind)
)
EVALUATED = (
    *(ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Load, ast.BinOp, ast.UnaryOp),
    *(ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


def main(descriptor: int) -> None:
    """Each order brings two descriptors: the candidate's channel, and the one for test and verdict."""
    os.dup2(os.open("/dev/null", os.O_RDWR), 2)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped at once
    orders = socket.socket(fileno=descriptor)
    orders.send(b"R")
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, 1, 2)
        if not data:
            return
        if os.fork() == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _one(*descriptors)
            os._exit(0)
        for number in descriptors:
            os.close(number)


def _one(channel: int, report: int) -> None:
    order = wire.receive(report)
    seconds = int(order["seconds"]) + 1
    signal.alarm(seconds + 2)  # its default action: no test can be in the way of it
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    wire.send(report, verdict(channel, order["test"]))


def verdict(channel: int, test: str) -> dict[str, Any]:
    """{passed, reason}. Passed: the test ran to its end, and the candidate kept to the protocol."""
    peer = Peer(channel, is_judge=True, offers=offers)
    try:
        match wire.receive(channel):
            case ["loaded"]:
                pass
            case ["failed", str(name)]:
                return {"passed": False, "reason": f"the program raises {name[:80]}"}
            case _:
                raise Violation("no answer to the program's start")
        run(peer, test)
    except Gone:
        return {"passed": False, "reason": peer.violation or "the program ended"}
    except Violation as error:
        return {"passed": False, "reason": f"the program broke the protocol: {error}"}
    except BaseException as error:
        return {"passed": False, "reason": f"{type(error).__name__}: {error}"[:300].rstrip(": ")}
    if peer.violation:
        return {"passed": False, "reason": peer.violation}
    return {"passed": True, "reason": "passed"}


def run(peer: Peer, test: str) -> None:
    """Execute a test whose free names are the candidate's."""
    tree = ast.parse(test)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__.update(eval=_value, exec=_refused, compile=_refused)
    classes = used_as_classes(tree)
    free = free_names(test)
    modules = free & used_as_modules(tree)
    module.__dict__.update({name: __import__(name) for name in modules})
    for name in sorted(free - modules):
        try:
            found = peer.request("name", 0, name)
        except (NameError, TypeError):
            if name in sys.stdlib_module_names:
                found = __import__(name)
            else:
                continue  # the test meets a NameError where it uses it
        module.__dict__[name] = _constructor(found) if name in classes and isinstance(found, Far) else found
    exec(compile(tree, "test.py", "exec"), module.__dict__)


def free_names(test: str) -> set[str]:
    """Global names that a test reads and nowhere binds, no builtins: those stay its own."""
    top = symtable.symtable(test, "test.py", "exec")
    read: set[str] = set()
    bound: set[str] = set()
    tables = [top]
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table is top or symbol.is_global():
                read |= {symbol.get_name()} if symbol.is_referenced() else set()
                bound |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
    return read - bound - set(dir(builtins)) - {"__name__", "__file__"}


def used_as_modules(tree: ast.Module) -> set[str]:
    """Modules of the standard library that a test uses, if only as `name.attribute`, and forgot to import.
    The candidate's `math`, whose `isclose` always agrees, is none."""
    attributes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    bare = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in attributes}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return (names - bare) & sys.stdlib_module_names


def _value(text: Any, *_: Any) -> Any:
    """`eval` of a test: what it evaluates may be the candidate's text, so literals and operators only."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, EVALUATED):
            raise TypeError(f"a test evaluates no {type(node).__name__}: the text may be the candidate's")
    return eval(compile(tree, "text", "eval"), {"__builtins__": {}})


def _refused(*_: Any, **__: Any) -> Any:
    raise TypeError("a test executes no text: it may be the candidate's")


def used_as_classes(tree: ast.Module) -> set[str]:
    """Names whose results a test uses as objects: `Stack().push(1)`, or `s = Stack()` and `s.push(1)`.

    Only such a result may answer the test's `x in s` and `s == 5` itself. A function that should return a
    list, and returns an object that contains and equals everything, must not: `f(3).sort()` says that f makes
    a list, no class, unless it is written like one (`Stack`).
    """
    made: dict[str, str] = {}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (name := _called(node.value)):
            made |= {target.id: name for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = _called(node.value) or (
                made.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            )
            found |= {name} if name[:1].isupper() or node.attr not in OF_DATA else set()
    return found - {""}


def _called(node: ast.expr) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _constructor(far: Far) -> Any:
    """The candidate's class. What a test makes with it is its own until the candidate hands it out."""

    def __call__(self: Any, *arguments: Any, **named: Any) -> Any:
        known = len(self._peer.far)
        made = self._peer.call("operator", self, "__call__", arguments, named)
        if isinstance(made, Far) and len(self._peer.far) > known:
            made.__dict__["_own"] = True
        return made

    far.__dict__["_own"] = False
    return type("Class", (type(far),), {"__call__": __call__})(far._peer, far._handle, far._about)


def offers(mine: Any, name: str, operation: str) -> bool:
    """What a candidate may do to an object that a test passed to it: call functions, use attributes and
    operators of instances of the test's classes, replace their data. `f.__globals__` holds the answers."""
    of_test = type(mine).__module__ == "__main__"
    if operation == "operator":
        return of_test or name in ("__call__", "__next__", "__iter__") or isinstance(mine, type)
    if not of_test or name.startswith("_"):
        return False
    return operation == "get" or (operation == "set" and name in getattr(mine, "__dict__", {}))
