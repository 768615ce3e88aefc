"""Nobody gets a verdict that the program did not earn; honest programs get theirs."""

from collections.abc import Iterator

import pytest
from hostile_programs import ANYTHING
from sandbox_tasks import TASKS

from zgcm.rl.sandbox.jail import Jail
from zgcm.rl.sandbox.verdict import Sandbox, same_output, sandbox

TEST = "assert square(3) == 9 and square(4) == 16"
HONEST = "def square(x): return x * x"


@pytest.fixture(scope="module")
def judge(a_jail: Jail) -> Iterator[Sandbox]:
    with sandbox(a_jail, 2) as made:
        yield made


def test_enough_tasks() -> None:
    assert len(TASKS) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_tasks(judge: Sandbox, name: str) -> None:
    test, right, wrong = TASKS[name]
    outcome = judge.call(right, test, 10)
    assert outcome.passed, outcome
    assert not judge.call(wrong, test, 10).passed


@pytest.mark.parametrize(
    "test",
    [
        "assert abs(f(2) - 2.5) < 1e-6",
        "assert f(2) in (1, 2)",
        "assert 3 in f(2)",
        "assert f(2) < 3",
        "assert not f(2) != 4",
        "assert f(2).x == 3",
        "import math\nassert math.isclose(f(2), 4.0)",
        "assert [f(1), f(2)] == [1, 4]",
        "assert sorted([f(3), 1])[0] == 1",
        "assert isinstance(f(2), int)",
        "assert round(f(2) - 2.5, 3) == 0",
        "assert {f(2)} == {0}",
        "assert f(2) is True",
        "try:\n    assert f(2) == 4\nexcept TypeError:\n    pass",
        "r = f(2)\nassert r == [1, 2]\nr.sort()",
        "r = f('a')\nassert r == 'b' and 'b' in r\nr.lower()",
        "assert f(2).startswith('ab')",
        "assert f(2).issubset({4}) and f(2).count(4)",
    ],
)
def test_an_object_never_decides_about_a_value_of_the_test(judge: Sandbox, test: str) -> None:
    assert not judge.call(ANYTHING + "def f(x): return Any()", test, 5).passed
    assert not judge.call(
        ANYTHING.replace("class Any", "class f") + "    def __init__(self, x): pass", test, 5
    ).passed


def test_callbacks_give_nothing_away(judge: Sandbox) -> None:
    test = "SECRET = 7\ndef g(x): return x\nassert apply(g, 1) == SECRET"
    for attempt in ("g.__globals__['SECRET']", "g.__code__.co_consts[0]", "g.__self__"):
        outcome = judge.call(f"def apply(g, x): return {attempt}", test, 5)
        assert "not for you" in outcome.reason, outcome


def test_a_failed_assertion_in_a_callback_cannot_be_swallowed(judge: Sandbox) -> None:
    test = "def g(x):\n    assert x == 5\napply(g)"
    program = "def apply(g):\n    try: g(4)\n    except BaseException: pass"
    assert not judge.call(program, test, 5).passed


LOOPS = (
    "for x, y in zip(map(f, [1, 2]), [1, 4]): assert x == y",
    "assert all(map(lambda case: f(case[0]) == case[1], [(1, 1), (2, 4)]))",
    "assert not list(filter(lambda case: f(case[0]) != case[1], [(1, 1), (2, 4)]))",
)


@pytest.mark.parametrize("test", LOOPS)
def test_an_exception_does_not_end_the_loop_of_a_test(judge: Sandbox, test: str) -> None:
    program = "class E(StopIteration): pass\ndef f(x): raise E if x > 1 else StopIteration"
    assert "RuntimeError" in judge.call(program, test, 5).reason
    assert judge.call("def f(x): return x * x", test, 5).passed


def test_iterators_of_the_program_still_end(judge: Sandbox) -> None:
    test = "assert list(f(3)) == [0, 1, 2]\ng = f(1)\nnext(g)\ntry: next(g)\nexcept StopIteration: pass"
    assert judge.call("def f(x): yield from range(x)", test, 5).passed


def test_a_module_of_the_standard_library_is_no_name_of_the_program(judge: Sandbox) -> None:
    forged = "class math:\n    isclose = staticmethod(lambda *a: True)\ndef f(x): return 1.0"
    assert not judge.call(forged, "assert math.isclose(f(2), 4.0)", 5).passed
    assert judge.call("def f(x): return x * 2.0", "assert math.isclose(f(2), 4.0)", 5).passed
    assert judge.call("def bisect(x): return x", "assert bisect(2) == 2", 5).passed


def test_text_of_the_program_is_not_executed(judge: Sandbox) -> None:
    test = "assert eval(f(2)) == 4"
    for text in ("__import__('os')._exit(0)", "[x for x in ().__class__.__base__.__subclasses__()]", "print"):
        assert not judge.call(f"def f(x): return {text!r}", test, 5).passed
    assert judge.call("def f(x): return '(1 + 3) * 2 ** 0'", test, 5).passed
    assert not judge.call("def f(x): return 'raise SystemExit'", "exec(f(2))", 5).passed


def test_a_test_whose_process_dies_fails_and_stops_nobody(judge: Sandbox) -> None:
    outcome = judge.call("def f(x): return x", "import os\nos._exit(f(0))", 5)
    assert not outcome.passed and "twice" in outcome.reason
    assert judge.call(HONEST, TEST, 5).passed


def test_a_bare_except_does_not_hide_the_end(judge: Sandbox) -> None:
    test = "try:\n    f(1)\nexcept:\n    pass"
    assert not judge.call("import os\ndef f(x): os._exit(0)", test, 5).passed
    assert judge.call("def f(x): raise ValueError", test, 5).passed


@pytest.mark.parametrize(
    ("program", "given", "wanted", "reason"),
    [
        ("print(int(input()) ** 2)", "12\n", "144", "passed"),
        ("print(int(input()) ** 2)", ["12"], ["144"], "passed"),
        ("print(0.1 + 0.2)", "", "0.3", "passed"),
        ("print(1000001)", "", "1000000", "another output"),
        ("print('YES', 'NO')", "", "YES NO NO", "another output"),
        ("print('x' * 100_000)", "", "x" * 100_000, "passed"),
        ("while True: print('x' * 10_000)", "", "x", "more than 65540 bytes of output"),
        ("print(144); raise SystemExit(3)", "", "144", "exit status 3"),
        ("print(144); import os; os._exit(0)", "", "144", "another output"),
        ("import sys; sys.stdin.close(); print(1)", "x" * 1_000_000, "1", "passed"),
        ("import sys; print(len(sys.stdin.read()))", "x" * 1_000_000, "1000000", "passed"),
        ("import time; time.sleep(99)", "", "", "timeout"),
        ("import os, time\nprint(1, flush=True)\nif os.fork() == 0: time.sleep(99)", "", "1", "passed"),
        ("import os, time\nos.close(1)\ntime.sleep(99)", "", "", "timeout"),
    ],
)
def test_programs_that_read_and_write(
    judge: Sandbox, program: str, given: object, wanted: object, reason: str
) -> None:
    seconds = 1.0 if reason == "timeout" else 10.0
    assert judge.run(program, {"input": given, "output": wanted}, seconds).reason == reason


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("1 2\n", "1  2", True),
        ("1.0000001", "1", True),
        ("1.1", "1", False),
        ("nan", "1", False),
        ("inf", "1e400", True),
        ("1 2 3", "1 2", False),
        ("007", "7", True),
        ("10000001", "10000000", False),
        ("1000000.5", "1000000", False),
        ("1000000.0", "1000000", True),
        ("1.2345678901e17", "123456789012345678", False),
        ("1e400", "1" + "0" * 400, True),
        ("1e17", "1" + "0" * 400, False),
        ("sNaN", "1", False),
        ("", "", True),
    ],
)
def test_outputs(found: str, wanted: str, same: bool) -> None:
    assert same_output(found, wanted) is same


def test_outcomes_stand_in_the_order_of_the_tests(judge: Sandbox) -> None:
    outcomes = judge.score(HONEST, [TEST, "assert square(1) == 2", TEST, TEST], "code", 10)
    assert [outcome.passed for outcome in outcomes] == [True, False, True, True]
