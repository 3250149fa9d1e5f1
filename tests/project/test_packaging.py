"""The package as others get it, and the workflow that tests it."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_workflow_tests_each_python_and_builds_the_documents():
    lines = WORKFLOW.read_text().splitlines()
    for number, line in enumerate(
        lines, 1
    ):  # as far as YAML can be checked without a parser
        indent = len(line) - len(line.lstrip(" "))
        assert "\t" not in line, number
        assert indent % 2 == 0, number
        assert not line.strip() or re.match(r"\s*(- )?[\w-]+:( |$)", line), number
    (matrix,) = (line for line in lines if line.strip().startswith("python:"))
    pythons = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python" in name
    ]
    assert re.findall('"(.*?)"', matrix) == pythons
    targets = [line.rpartition(" ")[2] for line in lines if "run: make" in line]
    assert targets == ["test", "docs", "dist"]
    assert any(line.endswith("run: .ci/run") for line in lines)
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(f"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_workflow_is_yaml():
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(WORKFLOW.read_text())
    assert set(content["jobs"]) == {"test", "slow-tests", "docs", "package"}
    for job in content["jobs"].values():
        assert job["runs-on"]
        assert any("run" in step for step in job["steps"])


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("build") is None, reason="`make dist` installs it"
)
def test_wheel_and_sdist_work_in_an_empty_environment(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path, ROOT],
        check=True,
        timeout=600,
    )
    packages = sorted(tmp_path.iterdir())
    assert [path.suffix for path in packages] == [".whl", ".gz"]
    variables = {"PYTHON": sys.executable, "CONSTRAINTS": str(ROOT / "constraints.txt")}
    for package in packages:
        smoke = [ROOT / "tests" / "project" / "smoke.sh", package]
        subprocess.run(smoke, env={**os.environ, **variables}, check=True, timeout=1200)
