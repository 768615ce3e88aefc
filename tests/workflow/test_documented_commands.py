"""The commands of the README and of docs/ as Snakemake reads them: what is meant as a target is one, and
results made on a cluster lie in a directory of their own."""

import re
import shlex

import pytest

from tests.workflow.jobs import CHECKOUT
from zgcm.cli.checked import read

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md")), CHECKOUT / "Snakefile"]
COMMAND = re.compile(r"^(?:#   )?(snakemake .*)$|`(snakemake [^`]+)`", re.M)


def commands() -> list[tuple[str, str]]:
    """(page, command), each without the comment behind it."""
    return [
        (path.name, (found[1] or found[2]).replace("$PWD", "/checkout"))
        for path in PAGES
        for found in COMMAND.finditer(path.read_text())
    ]


def test_the_pages_have_commands() -> None:
    assert len({page for page, _ in commands()}) > 8


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda text: text[:60])
def test_a_documented_command_means_what_it_says(
    page: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)  # where --profile slurm finds its link
    words = shlex.split(re.split(r"\s{2,}| > ", command)[0], comments=True)[1:]
    options = read(words)
    assert set(options.targets) == {word for word in words if word.startswith("results/")}
    if options.profile and words != ["--profile", "slurm"]:  # its bare name, in prose
        assert options.directory, "beside results of the tiny recipe it is refused"
    elif options.targets and not options.dryrun:
        assert options.cores, "Snakemake refuses to start"
