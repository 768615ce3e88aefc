"""How rules are written: one form for all of them, and nothing hidden in them."""

import re

import pytest

from tests.workflow.jobs import CHECKOUT

FILES = [CHECKOUT / "Snakefile", *sorted((CHECKOUT / "rules").glob("*.smk"))]
ORDER = ["input", "output", "log", "benchmark", "params", "threads", "resources", "conda", "message", "shell"]
RULE = re.compile(r"^(?P<indent> *)rule(?: (?P<name>\w+))?:\n(?P<body>(?:(?P=indent) +.*\n|\n)+)", re.M)


def rules() -> list[tuple[str, list[str], str]]:
    """(file and name, section names in order, text) of every rule but `all`."""
    found = []
    for path in FILES:
        for match in RULE.finditer(path.read_text()):
            if match["name"] == "all":
                continue
            sections = re.findall(rf"^{match['indent']}    (\w+):", match["body"], re.M)
            found.append((f"{path.name}: {match['name'] or sections[0]}", sections, match["body"]))
    return found


def test_the_parser_of_this_test_sees_every_rule() -> None:
    assert len(rules()) == 21


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule[0])
def test_every_rule_has_all_sections_in_order(rule: tuple[str, list[str], str]) -> None:
    sections = [name for name in rule[1] if name in ORDER]
    expected = [name for name in ORDER if name != "input" or "input" in sections]  # `raw`, `preflight`
    assert sections == expected
    assert "recipe_id=" in rule[2]
    to_log = r"> \{log\} 2>&1|2>&1 \| \(trap '' INT TERM; tee \{log\}\)"  # a tee that Ctrl-C does not end
    assert re.search(to_log, rule[2]), "its output goes to its log"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rules_hide_nothing(path) -> None:  # type: ignore[no-untyped-def]
    text = path.read_text()
    assert "lambda" not in text
    directories = set(re.findall(r"\bdirectory\((.*?)\)", text))
    assert directories <= {'"results/{stage}/evaluations"'}, "Snakemake would delete a checkpoint directory"
    assert not re.search(r"^checkpoint ", text, re.M)


def test_the_snakefile_is_a_map() -> None:
    text = (CHECKOUT / "Snakefile").read_text()
    assert len(text.splitlines()) < 60
    assert re.search(r"rule all:\n.*?input:\n\s+targets\(\),\n", text, re.S)


def test_the_default_profile_names_no_executor() -> None:
    text = (CHECKOUT / "profiles/default/config.yaml").read_text()
    keys = set(re.findall(r"^([a-z-]+):", text, re.M))
    assert keys == {"quiet", "rerun-triggers", "rerun-incomplete", "nolock"}
    assert (CHECKOUT / "slurm").resolve() == CHECKOUT / "profiles/slurm"
