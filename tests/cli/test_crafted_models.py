"""`mmlp info` on crafted files gives a result or one line, and leaves the terminal alone."""

import copy
import json

import fuzz
import pytest
from command import run

from mmlp.serialization import files
from mmlp.terminal import escape_controls

ESCAPE = "\x1b]0;owned\x07"
VALUES = [
    None,
    True,
    -1,
    10**10,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "a",
    ESCAPE,
    [],
    {},
]
VALUES += [
    [1],
    ["a", 1],
    {"value": []},
    {"dict": []},
    {"tuple": {}},
    {"scaling": 3},
    "x" * 10_000,
]


def craft(here, change, name="crafted.safetensors"):
    """Write a model with a right checksum whose header was changed."""
    arrays, metadata = files.read(here / "regression.safetensors")
    change(metadata)
    files.write(here / name, arrays, metadata)
    return name


def check_answer(status, out, err):
    """A result, or one line on stderr that names the file; neither controls the terminal."""
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    if status == 0:
        assert err == ""
        assert out.startswith("model ")
    else:
        assert (status, out) == (1, "")
        assert err.startswith("mmlp: crafted.safetensors ")
        assert err.count("\n") == 1
        assert len(err) < 1000


@pytest.mark.parametrize("entry", ["n_features_in_", "n_targets"])
def test_a_small_file_that_claims_many_columns_is_refused_at_once(entry, here, capsys):
    def claim(metadata):
        for name in ("feature_names_in_", "target_names_"):
            metadata["fitted"].pop(name)
        metadata["fitted" if entry == "n_features_in_" else "about"][entry] = 10**10

    status, out, err = run(capsys, "info", craft(here, claim))
    assert (status, out) == (1, "")
    assert "it claims 10000000000 columns, more than it has bytes" in err


@pytest.mark.parametrize(
    "params", [[], {"list": []}, {"value": 3}, {"dict": []}, "text", {}]
)
def test_settings_that_are_no_dictionary_are_refused(params, here, capsys):
    status, out, err = run(
        capsys, "info", craft(here, lambda m: m.update(params=params))
    )
    assert (status, out) == (1, "")
    assert err.startswith(
        "mmlp: crafted.safetensors is damaged: its header makes no sense"
    )
    assert err.count("\n") == 1


def test_escape_sequences_in_names_do_not_reach_the_terminal(here, capsys):
    def name(metadata):
        metadata["fitted"]["feature_names_in_"] = [ESCAPE, "two\nlines"]
        metadata["fitted"]["target_names_"] = [
            "\u202eu",
            "\u0432\u0435\u0442\u0435\u0440",
        ]
        metadata["params"]["dict"][ESCAPE] = {"value": ESCAPE}
        metadata["about"]["kind"] = ESCAPE

    path = craft(here, name)
    status, out, err = run(capsys, "info", path)
    check_answer(status, out, err)
    assert r"inputs    \x1b]0;owned\x07, two\nlines" in out
    assert "\\u202eu, \u0432\u0435\u0442\u0435\u0440" in out
    status, out, err = run(capsys, "info", path, "--json")
    assert json.loads(out)["inputs"] == [ESCAPE, "two\nlines"], (
        "as they are, for a program"
    )
    assert "\x1b" not in out


def test_escape_sequences_of_a_table_do_not_reach_the_terminal(here, tmp_path, capsys):
    path = tmp_path / f"{ESCAPE}.csv"
    path.write_text(f"{ESCAPE},b,u,v\n1,2,3,4\n")
    status, out, err = run(capsys, "predict", "regression.safetensors", path)
    assert (status, out) == (1, "")
    assert r"\x1b]0;owned\x07.csv has no column 'a'" in err
    assert "\x1b" not in err


def test_names_that_are_text_in_any_script_are_printed_as_they_are():
    for text in (
        "temp\u00e9rature",
        "\u6e29 \u5ea6",
        "\u0645\u06cc\u200c\u0634\u0648\u062f",
        "a\nb",
    ):
        assert escape_controls(text) == text
    assert escape_controls("\udcff\x9b1m\u2028\r\t") == r"\udcff\x9b1m\u2028\r\t"


def test_numbers_that_are_not_finite_are_null_in_json(here, capsys):
    def change(metadata):
        metadata["params"]["dict"]["learning_rate"] = {
            "tuple": [{"value": float("inf")}]
        }

    status, out, _ = run(capsys, "info", craft(here, change), "--json")
    assert status == 0
    assert json.loads(out)["settings"]["learning_rate"] == [None]


def test_every_entry_of_the_wrong_type_gives_a_result_or_one_line(here, capsys):
    arrays, original = files.read(here / "regression.safetensors")
    places = [()]
    for path in places:
        node = original
        for key in path:
            node = node[key]
        if isinstance(node, dict) and len(path) < 4 and "architecture" not in path:
            places += [(*path, key) for key in node]
    for i, path in enumerate(places[1:]):
        for value in (VALUES[i % len(VALUES)], VALUES[(7 * i + 3) % len(VALUES)]):
            metadata = copy.deepcopy(original)
            node = metadata
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
            (here / "crafted.safetensors").write_bytes(
                fuzz.packed(arrays, json.dumps(metadata))
            )
            status, out, err = run(capsys, "info", "crafted.safetensors")
            if path[0] in ("kind", "version"):
                assert status == 1
                assert err.count("\n") == 1
            else:
                check_answer(status, out, err)


def test_settings_nested_without_end_are_refused(here, capsys):
    def nest(metadata):
        node = {"value": 1}
        for _ in range(300):
            node = {"tuple": [node]}
        metadata["params"]["dict"]["deep"] = node

    status, _, err = run(capsys, "info", craft(here, nest))
    assert status == 1
    assert "nested too deeply" in err
