"""Small files, small functions, short lines."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("mmlp", "benchmarks", "examples")
FILE, FUNCTION, LINE = 250, 50, 100


def paths(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def files():
    for path in paths(*FOLDERS):
        yield path, len(path.read_text().splitlines())


def functions():
    for path in paths(*FOLDERS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                yield f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def lines():
    for path in paths(*FOLDERS, "tests", "docs"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path}:{number}", len(line)


@pytest.mark.parametrize(("sizes", "limit"), [(files, FILE), (functions, FUNCTION), (lines, LINE)])
def test_nothing_is_longer_than(sizes, limit):
    offenders = [f"{place}: {size}" for place, size in sizes() if size > limit]
    assert not offenders, "\n".join(offenders)
