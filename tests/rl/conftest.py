import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bandit import make_policy, make_tokenizer
from measuring import FakeEngine

from zgcm.rl import difficulty
from zgcm.rundir.manifest import write_manifest


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy") / "export"
    make_policy(directory)
    return directory


@pytest.fixture(scope="module", autouse=True)
def environment_as_before() -> Iterator[None]:
    """vLLM and Ray set variables for every process to come; a later test's trainer is none of theirs."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `prepare` makes, without a trained policy."""
    root = tmp_path_factory.mktemp("difficulty")
    export = root / "results" / "export" / "sft"
    export.mkdir(parents=True)
    make_tokenizer(export)
    (export / "config.json").write_text("{}")
    write_manifest(export)
    return root


@pytest.fixture
def root(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a stage's prompts can be measured, by the stand-in engine."""
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("bandit.make_policy", lambda *_, **__: None)
    monkeypatch.setattr("zgcm.rl.rollout.Engine", FakeEngine)
    monkeypatch.setattr(difficulty.os, "environ", {})
    FakeEngine.asked = Counter()
    return tmp_path
