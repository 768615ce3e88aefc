"""What all tests share: one thread per process, no hub, no deadlines, whatever the developer's shell says."""

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
os.environ.pop("ZGCM_RECIPE", None)

# submitit configures `logging` when it is imported, which closes every handler there is, also pytest's own.
# This file is read before pytest makes them.
import submitit  # noqa: F401

# Nothing about examples is judged by the clock: a busy machine is no defect.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of training last, whatever was asked for: some put megatron-core's CPU layer into this
    process, which changes torch for whoever comes after."""
    items.sort(key=lambda item: "tests/train/" in item.path.as_posix())
