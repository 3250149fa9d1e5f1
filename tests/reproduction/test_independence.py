"""The installed package does not contain the experiments, and must not need them."""

from pathlib import Path

import mmlp


def test_the_package_does_not_import_its_experiments():
    files = Path(mmlp.__file__).parent.rglob("*.py")
    importing = [
        file.name
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.split()[:1] in (["from"], ["import"])
        and line.split()[1].split(".")[0] == "reproduction"
    ]
    assert importing == []
