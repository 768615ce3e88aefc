"""Does every version that the environments pin exist? Run by hand, with network, after a change of envs/.

    .venv/bin/python scripts/check_pins.py [FILE ...]      # all files of envs/ but laptop.lock

Asks pip for the versions of each package, git for each commit, conda (or mamba, micromamba) for its
packages; downloads no package. Ends with 1 when a pin does not exist or nothing answers. Without conda its
pins are named as not checked.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ENVS = Path(__file__).parents[1] / "envs"
ENGINES = ("megatron", "rollout")
FILES = [f"{name}.{suffix}" for name in ENGINES for suffix in ("yaml", "post-deploy.sh", "def")]
PIP = re.compile(r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,-]+\])?==(?P<version>\d[\w.+!]*)")
GIT = re.compile(r"git\+(?P<name>\S+?)@(?P<version>[0-9a-f]{40})")
CONDA = re.compile(r"^ {2}- (?P<name>[a-z][\w-]*) =(?P<version>\d[\w.]*)", re.M)


@dataclass(frozen=True, order=True)
class Pin:
    kind: str
    name: str
    version: str


def pins(text: str) -> list[Pin]:
    """Every pin of a file, comments left out."""
    bare = re.sub(r"(?m)(^|\s)# .*$", "", text)
    patterns = {"pip": PIP, "git": GIT, "conda": CONDA}
    return sorted(
        {Pin(kind, m["name"], m["version"]) for kind, p in patterns.items() for m in p.finditer(bare)}
    )


def pip_has(pin: Pin) -> bool:
    command = [
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        pin.name,
        "--pre",
        "--python-version",
        "3.12",
    ]
    answer = subprocess.run(
        [*command, "--no-input", "--disable-pip-version-check"], capture_output=True, text=True, timeout=300
    )
    listed = re.search(r"^Available versions: (.*)$", answer.stdout, re.M)
    if listed is None:
        raise RuntimeError((answer.stderr.strip().splitlines() or ["pip printed nothing"])[-1])
    return pin.version in listed[1].split(", ")


def git_has(pin: Pin) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["git", "init", "--quiet", directory], check=True)
        fetch = ["git", "-C", directory, "fetch", "--quiet", "--depth", "1", "--filter", "blob:none"]
        answer = subprocess.run([*fetch, pin.name, pin.version], capture_output=True, text=True, timeout=600)
    if answer.returncode and "not our ref" not in answer.stderr:
        raise RuntimeError((answer.stderr.strip().splitlines() or ["git printed nothing"])[-1])
    return not answer.returncode


def conda_has(pin: Pin) -> bool:
    program = next(filter(shutil.which, ("conda", "mamba", "micromamba")), None)
    if program is None:
        raise LookupError("no conda here")
    search = [program, "search", "--override-channels", "-c", "conda-forge", f"{pin.name}={pin.version}"]
    return not subprocess.run(search, capture_output=True, timeout=600).returncode


ASK: dict[str, Callable[[Pin], bool]] = {"pip": pip_has, "git": git_has, "conda": conda_has}


def check(found: list[Pin]) -> Iterator[tuple[str, Pin, str]]:
    """(state, pin, why) of each: exists, missing, not checked or unknown."""
    for pin in found:
        try:
            yield "exists" if ASK[pin.kind](pin) else "missing", pin, ""
        except LookupError as error:
            yield "not checked", pin, str(error)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            yield "unknown", pin, str(error)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*", default=[ENVS / name for name in FILES])
    found = sorted({pin for path in parser.parse_args().files for pin in pins(path.read_text())})
    states = []
    for state, pin, why in check(found):
        print(f"{state:<12} {pin.kind:<6} {pin.name} {pin.version} {why}".rstrip(), flush=True)
        states.append(state)
    bad = states.count("missing") + states.count("unknown")
    print(f"{len(states)} pins, {states.count('exists')} exist, {bad} missing or unknown")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
