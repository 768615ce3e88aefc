"""The generated files are up to date, and say what the models do."""

import json
from pathlib import Path

import jsonschema
import pytest

from zgcm.config.base import is_execution
from zgcm.config.docs import REFERENCE_FILE, SCHEMA_FILE, reference_text, schema, schema_text
from zgcm.config.docstrings import key_docstrings
from zgcm.config.keys import all_keys, sections
from zgcm.config.load import read_mapping
from zgcm.config.recipe import deep_merge

ROOT = Path(__file__).parents[2]


def test_schema_file_is_up_to_date() -> None:
    assert (ROOT / SCHEMA_FILE).read_text() == schema_text(), "write it anew with: zgcm schema"


def test_reference_page_is_up_to_date() -> None:
    assert (ROOT / REFERENCE_FILE).read_text() == reference_text(), "write it anew with: zgcm keys"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("name", ["tiny", "zgcm-7b"])
def test_committed_recipes_obey_the_schema(validator: jsonschema.Draft202012Validator, name: str) -> None:
    validator.validate(read_mapping(ROOT / f"config/{name}.yaml"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": {"num_layer": 3}},
        {"stages": {"sft": {"optimizer": {"lr": -1.0}}}},
        {"stages": {"sft": {"kind": "stf"}}},
        {"mixes": {"sft": {"order": "random"}}},
    ],
)
def test_the_schema_refuses(validator: jsonschema.Draft202012Validator, wrong: dict) -> None:
    data = deep_merge(read_mapping(ROOT / "config/tiny.yaml"), wrong)
    assert not validator.is_valid(data)


def test_every_key_and_section_says_what_it_is() -> None:
    silent = [
        f"{section.path}.{name}"
        for section in sections()
        for name in section.model.model_fields
        if not key_docstrings(section.model).get(name)
    ]
    assert not silent, "these keys need a docstring below them"
    assert all(section.model.__doc__ for section in sections())


def test_every_key_stands_on_the_page() -> None:
    page = (ROOT / REFERENCE_FILE).read_text()
    assert len(all_keys()) > 200
    assert all(f"| `{path.rpartition('.')[2]}` |" in page for path in all_keys())
    assert all(f"`{section.path}`" in page for section in sections() if section.path)


def test_the_page_tells_identity_from_execution() -> None:
    page = (ROOT / REFERENCE_FILE).read_text()
    rows = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if line.startswith("| `")}
    assert rows["rotary_base"].endswith("| identity |")
    assert rows["nodes"].endswith("| execution |")
    lines = page.splitlines()
    for section in sections():
        for name in (name for name, field in section.model.model_fields.items() if is_execution(field)):
            assert any(line.startswith(f"| `{name}` |") and line.endswith("| execution |") for line in lines)


def test_the_schema_is_json_with_a_dialect() -> None:
    assert json.loads(schema_text())["$schema"].endswith("2020-12/schema")
