"""`run.json` says where and with what; every kind of stage says it alike."""

import subprocess
from pathlib import Path

from zgcm.rundir import provenance


def test_circumstances_name_the_machine_the_checkout_and_installed_packages_only() -> None:
    facts = provenance.circumstances(["orjson", "no-such-package"])
    assert {"started", "host", "pid", "slurm_job_id", "commit", "versions"} == facts.keys()
    assert facts["versions"].keys() == {"python", "executable", "orjson"}


def test_the_commit_is_that_of_the_checkout_and_marks_changes() -> None:
    head = ["git", "-C", str(Path(provenance.__file__).parent), "rev-parse", "HEAD"]
    expected = subprocess.run(head, capture_output=True, text=True).stdout.strip()
    found = provenance.commit() or ""
    assert expected.startswith(found.removesuffix("+"))
