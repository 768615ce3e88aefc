"""The candidate's process: takes the program, limits itself, runs it, then answers the tests' calls.

Everything after `ready` may be the program's doing; nobody believes it but as an answer to a question.
"""

import os
import sys
import types

from . import limits, wire
from .peer import Peer


def main(descriptor: int) -> None:
    """For function tests. First message: {program, limits}."""
    program = _prepare(descriptor)
    module = _module()
    try:
        exec(compile(program, "solution.py", "exec"), module.__dict__)
    except BaseException as error:
        wire.send(descriptor, ["failed", type(error).__name__])
        os._exit(1)
    peer = Peer(descriptor, is_judge=False, offers=lambda *_: True)
    peer.find = lambda name: _named(module, name)
    wire.send(descriptor, ["loaded"])
    try:
        peer.serve()
    finally:
        os._exit(0)


def run_program(descriptor: int) -> None:
    """For programs that read stdin and write stdout; their exit status is this process's."""
    program = _prepare(descriptor)
    os.close(descriptor)
    exec(compile(program, "solution.py", "exec"), _module().__dict__)


def _prepare(descriptor: int) -> str:
    first = wire.receive(descriptor)
    limits.apply(*first["limits"])
    os.write(descriptor, b"R")
    program: str = first["program"]
    return program


def _module() -> types.ModuleType:
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path.remove("/inside")
    sys.argv = ["solution.py"]
    return module


def _named(module: types.ModuleType, name: str) -> object:
    if name not in module.__dict__:
        raise NameError(f"name {name!r} is not defined")
    return module.__dict__[name]
