"""The check on the usual host: it is `.ci/run`, may read and nothing else, and asks for advisories."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".github/workflows/ci.yml"
yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra hf")

if not FILE.exists():
    pytest.skip("the check of the usual host is beside the tests, in the repository", allow_module_level=True)


def workflow() -> dict:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def steps(job: str) -> list[dict]:
    return workflow()["jobs"][job]["steps"]


def test_it_runs_the_whole_check_and_asks_for_advisories():
    assert [step["run"] for step in steps("check") if ".ci/run" in step.get("run", "")] == ["bash .ci/run"]
    assert steps("pip-audit")[-1] == {"run": "make pip-audit"}
    recipe = re.search(r"^pip-audit:.*\n\t@(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe
    command = "$(AUDIT)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt"
    assert recipe[1] == command


def test_it_may_read_and_nothing_else():
    text, found = FILE.read_text(encoding="utf-8"), workflow()
    assert found["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in found["jobs"].values())
    events = found[True]  # YAML reads the word "on" as true
    assert set(events) == {"push", "pull_request", "schedule", "workflow_dispatch"}
    assert "pull_request_target" not in text
    assert "secrets" not in text
    assert not re.search(r"https?://|--index-url|--extra-index-url|--find-links", text)


@pytest.mark.parametrize("job", ["check", "pip-audit"])
def test_a_job_ends_and_uses_actions_of_a_named_version_without_credentials(job):
    assert workflow()["jobs"][job]["timeout-minutes"] <= 40
    used = [step for step in steps(job) if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in used)
    checkout, python = used
    assert checkout["with"] == {"persist-credentials": False}
    assert python["with"] == {"python-version": "3.11"}


def test_a_newer_commit_stops_the_check_of_an_older_one():
    assert workflow()["concurrency"]["cancel-in-progress"] is True


def test_every_pin_is_one_that_can_be_looked_up():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
