"""The two experiments on the power exponential: their JSON, figures, and what they show."""

import json

import matplotlib
import numpy as np
import pytest

from reproduction import radius
from reproduction.harness.run import run_one

matplotlib.use("agg")


def test_density_writes_json_and_draws_from_it(tmp_path):
    record = run_one("density", ["--quick", "--out", str(tmp_path), "--rho", "0.3"])
    assert json.loads((tmp_path / "density.json").read_text())["settings"]["rho"] == 0.3
    assert (tmp_path / "density.png").stat().st_size > 10_000
    panels = record["result"]["panels"]
    assert [(p["alpha"], p["beta"]) for p in panels] == [
        (0.5, 0.5),
        (0.5, 1.5),
        (1.5, 0.5),
        (1.5, 1.5),
    ]
    assert [claim["verdict"][:7] for claim in record["result"]["claims"]] == [
        "holds",
        "depends",
    ]
    np.testing.assert_allclose(
        panels[1]["mass"], 1, atol=0.01
    )  # light tails: all mass is inside the square


@pytest.mark.slow
def test_radius_writes_json_and_draws_from_it(tmp_path):
    record = run_one("radius", ["--quick", "--seeds", "1", "--out", str(tmp_path)])
    assert record["settings"]["seeds"] == 1
    for name in ("radius_covariance.png", "radius_mean.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert [claim["verdict"] for claim in record["result"]["claims"]][
        1
    ] == "does not hold"
    assert "times the exact variance" in record["result"]["claims"][1]["evidence"]
    for row in record["result"]["rows"]:
        law = next(
            law
            for law in record["result"]["laws"]
            if (law["d"], law["beta"]) == (row["d"], row["beta"])
        )
        assert row["variance_ratio_gamma"] == pytest.approx(
            1, abs=0.15
        )  # 2000 samples: five standard errors or more
        assert row["variance_ratio_normal"] == pytest.approx(
            law["variance_ratio"], abs=0.15
        )


def test_normal_radius_is_biased_at_small_shapes():
    """The paper's extreme case, d = 2 and large beta, against a comfortable one."""
    extreme, mild = (
        radius.compare_distributions(2, 10.0),
        radius.compare_distributions(50, 0.5),
    )
    assert extreme["negative"] > 0.35
    assert extreme["distance"] > 0.2
    assert abs(extreme["variance_ratio"] - 1) > 0.3
    assert mild["distance"] < 0.05
    assert abs(mild["variance_ratio"] - 1) < 0.01
