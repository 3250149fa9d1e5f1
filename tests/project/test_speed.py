"""The page of speed: rivals take turns, ratios are right, and what missed its aim is said so."""

import re

import equinox as eqx
import jax
import matplotlib
import numpy as np
import pytest
from documents import ROOT
from rivals import steps, tables, turns
from rivals.figure import draw_record

import mmlp

RECORD = tables.read_record()
ROWS = [
    {"name": "ours", "threads": 2, "ms": [1.0, 2.0, 4.0]},
    {"name": "theirs", "threads": 1, "ms": [3.0, 7.0, 8.0]},
    {"name": "theirs", "threads": 2, "ms": [9.0, 9.0, 9.0]},
    {"name": "other", "threads": 2, "failed": "ModuleNotFoundError: no other"},
]


def test_a_ratio_is_the_median_over_turns_at_the_best_number_of_threads():
    assert turns.compute_ratio(ROWS, "theirs", "ours") == 3.0
    assert turns.find_fastest(ROWS, "theirs")["threads"] == 1
    assert turns.compute_ratio(ROWS, "other", "ours") is None
    table = tables.format_comparison({"a": ROWS}, "ours")
    assert "| ours | 2.00 ms (2) |" in table
    assert "| theirs | 7.00 ms, 3.00x (1) |" in table
    assert "| other | failed |" in table


def test_arithmetic_is_counted_by_the_second():
    rows = [
        {"name": "a", "ms": [2.0], "mflop": 8.0},
        {"name": "product", "ms": [1], "mflop": 16.0},
    ]
    table = tables.format_growth({"growth": rows})
    assert "| a | 2.00 ms | 8 Mflop | 4.00 Gflop/s | 25 % |" in table


def test_rivals_run_in_processes_of_their_own_and_one_that_fails_says_why(
    tmp_path, monkeypatch
):
    (tmp_path / "quick.py").write_text(
        "import os\n"
        "def good(steps):\n"
        "    return (lambda: None), steps, {'threads seen': os.environ['OMP_NUM_THREADS']}\n"
        "def bad(): import no_such_module\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rivals = [
        turns.Rival("a", "quick:good", {"steps": 5}, 1),
        turns.Rival("b", "quick:bad"),
    ]
    good, bad = turns.time_in_turns(rivals, 3)
    assert good["threads seen"] == "1"
    assert len(good["ms"]) == 3
    assert bad["failed"] == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_record_of_a_gpu_becomes_a_table():
    rows = [
        {"what": "von Neumann with gradient, 1000 x 64", "ms": 8.23, "before": 22},
        {"what": "von Neumann with gradient, 10 x 560", "ms": 49.7, "before": 793},
        {"what": "another", "ms": 0.433, "before": None},
    ]
    table = tables.format_gpu({"device": "a device", "jax": "0.0", "rows": rows})
    assert "| a device, jax 0.0 | now | 0.1.0 | aim below |" in table
    assert "| 8.23 ms | 22.0 ms | 8.00 ms: missed |" in table
    assert "| 49.7 ms | 793 ms | 100 ms: met |" in table
    assert "| another | 0.433 ms | - | - |" in table


def test_the_page_shows_every_table_of_the_record():
    shown = re.findall(r"```{speed} (\w+)", (ROOT / "docs/speed.md").read_text())
    assert sorted(shown) == sorted([*tables.TABLES, "figure", "gpu", "machine"])
    for name in tables.TABLES:
        header, rule, *rows = tables.format_table(RECORD, name).splitlines()
        assert rows, name
        assert {line.count("|") for line in (rule, *rows)} == {header.count("|")}, name


def test_the_page_says_how_busy_the_machine_was():
    line = tables.format_machine(
        {"machine": "2 CPU cores", "jax": "1", "torch": "2", "load": {"steps": 3.5}}
    )
    assert line.startswith("2 CPU cores, jax 1, PyTorch 2. Load average")
    assert line.endswith(": steps 3.5.")


def test_a_part_that_is_missing_names_its_command():
    assert (
        tables.format_table({}, "errors")
        == "Not measured yet: `python benchmarks/peers.py divergences`."
    )


def test_an_aim_is_met_only_by_what_was_measured():
    verdicts = tables.format_verdicts(RECORD).splitlines()[2:]
    for (_, value, aim, more), line in zip(
        tables.list_aims(RECORD), verdicts, strict=True
    ):
        met = value is not None and (value >= aim if more else value <= aim)
        assert line.endswith("| met |") == met, line


def test_the_record_is_drawn(tmp_path):
    matplotlib.use("agg")
    draw_record(RECORD, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 20_000


@pytest.mark.slow
def test_rivals_compute_what_the_library_computes():
    """The same weights give the same vector and matrix."""
    layers = steps.draw_weights(jax.random.key(0), 10, 5)
    x = jax.random.normal(jax.random.key(1), (10,))
    by_hand, Omega, _ = jax.jit(steps.apply_network)(layers, x)
    ours = mmlp.MatrixMLP(
        10,
        5,
        (30, 30, 30),
        6,
        output=mmlp.Dense(mmlp.MercerSigmoid()),
        key=jax.random.key(0),
    )

    def weights(model):
        pairs = zip(model.matrices, model.vectors, strict=True)
        return [w for m, v in pairs for w in (m.W, m.B, v.A, v.C, v.b)]

    ours = eqx.tree_at(weights, ours, [layer[k] for layer in layers for k in "WBACb"])
    vector, value = eqx.filter_jit(ours)(x)
    np.testing.assert_allclose(vector, by_hand, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value.dense(), Omega, rtol=1e-4, atol=1e-6)
    torch = pytest.importorskip("torch")
    from rivals import torch_steps

    net = torch_steps.Network(10, 5)
    with torch.no_grad():
        for i, layer in enumerate(layers):
            for name, value in layer.items():
                getattr(net, name)[i].copy_(
                    torch.from_numpy(np.array(value, np.float32))
                )
        vector, T = net(torch.from_numpy(np.array(x, np.float32))[None])
    np.testing.assert_allclose(vector[0].numpy(), by_hand, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((T.mT @ T)[0].numpy(), Omega, rtol=1e-4, atol=1e-6)
