"""No jaxlib that can hang: not by requirements, not by pins, and not without a word."""

import importlib
import re
import tomllib
import warnings
from pathlib import Path

import pytest
from jaxlib import version as jaxlib
from packaging.markers import default_environment
from packaging.requirements import Requirement

from mmlp import linalg
from mmlp._version import can_hang

ROOT = Path(__file__).parents[2]
GOOD = ("0.9.0", "0.9.0.1", "0.11.2", "0.12.0", "0.12.0.1", "1.0")
BAD = ("0.9.1", "0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1")


@pytest.mark.parametrize("package", ["jax", "jaxlib"])
def test_the_requirements_admit_the_good_versions_only(package):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (
        r for r in map(Requirement, project["dependencies"]) if r.name == package
    )
    for version in GOOD:
        assert requirement.specifier.contains(version), version
        assert not can_hang(version), version
    for version in BAD:
        assert not requirement.specifier.contains(version), version
        assert can_hang(version), version


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_python_has_one_pin_of_each_package_and_a_good_jaxlib(python):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    environment = {**default_environment(), "python_version": python}
    chosen = [
        pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment)
    ]
    names = [re.sub(r"[-_.]+", "-", pin.name).lower() for pin in chosen]
    assert sorted(names) == sorted(set(names))
    for name in ("jax", "jaxlib"):
        version = str(chosen[names.index(name)].specifier).removeprefix("==")
        assert version == ("0.9.0.1" if python == "3.11" else "0.12.0.1")


def test_the_first_use_of_a_jaxlib_that_can_hang_warns_once_in_one_line(monkeypatch):
    monkeypatch.setattr(jaxlib, "__version__", "0.9.2")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        importlib.reload(linalg)
    (warning,) = caught
    text = str(warning.message)
    assert "\n" not in text
    assert re.search(
        r"jaxlib 0\.9\.2 can hang.*install jax and jaxlib 0\.9\.0\.1", text
    )
    monkeypatch.undo()
    importlib.reload(linalg)  # a good version: not a word, which here would be an error
