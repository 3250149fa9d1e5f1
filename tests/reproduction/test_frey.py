"""The table of the Frey faces and the ladder of `collapse`: verdicts that follow the numbers."""

import json
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pooch
import pytest

from mmlp.datasets import images as datasets_images
from reproduction import collapse, frey, frey_pixels
from reproduction.harness.run import run_one, run_several
from reproduction.vaes import frey_claims, images
from reproduction.vaes.recipes import Recipe

SETTINGS = frey.Settings(
    latents=(2,),
    models=("NdNd",),
    compared=("NfNf",),
    seeds=2,
    components=4,
    train=150,
    validation=50,
    samples=8,
    images="digits",
)


def row(group, model, IW, k=5, **scores):
    base = dict.fromkeys(("LL", "KLD", "ELBO", "IW", "train ELBO"), IW)
    return {"k": k, "group": group, "model": model} | base | scores


def verdicts(trained, simple=None):
    return {
        claim["claim"]: claim
        for claim in frey_claims.judge_claims(trained, simple or {})
    }


def about(text, *given):
    return next(claim for known, claim in verdicts(*given).items() if text in known)


def test_one_seed_decides_nothing():
    rows = [
        row(frey_claims.MATRIX, "NfNf", [-57.0]),
        row(frey_claims.MATRIX, "NdNd", [-60.0]),
    ]
    found = verdicts([*rows, row(frey_claims.WIDE_CHOLESKY, "NfNf", [-70.0])])
    assert found
    assert all(claim["verdict"] == "does not hold" for claim in found.values())
    assert "one seed" in found["Full covariances beat diagonal ones in LL."]["evidence"]


def test_the_joint_network_is_compared_with_every_rival_on_the_splits_they_share():
    trained = [
        row(
            frey_claims.MATRIX, "NfNf", [-50.0, -50.1]
        ),  # of other splits: not compared
        row(frey_claims.JOINT, "EfNf", [-57.0, -57.2]),
        row(frey_claims.WIDE_CHOLESKY, "EfNf", [-58.0, -58.0]),
    ]
    simple = {"Gaussian mixture": {"IW": [-60.0, -60.0, -40.0]}}
    claim = about("every rival", trained, simple)
    assert claim["verdict"] == "holds"
    assert (
        "2 x 100 EfNf +0.90 ± 0.10; Gaussian mixture +2.90 ± 0.10" in claim["evidence"]
    )
    simple["neural spline flow"] = {"IW": [-57.0, -57.0]}
    verdict = about("every rival", trained, simple)["verdict"]
    assert verdict.endswith("not for neural spline flow")
    trained[1]["IW"] = [-57.6, -57.8]
    assert (
        "the goal -57.5 -0.20 ± 0.10"
        in about("every rival", trained, simple)["evidence"]
    )


@pytest.mark.parametrize(("gap", "verdict"), [(0.2, "holds"), (0.6, "does not hold")])
def test_overfitting_is_judged_by_the_threshold_that_the_claim_states(gap, verdict):
    elbo = [-60.0, -60.1, -59.9]
    fitted = [
        value + gap + extra for value, extra in zip(elbo, (0.01, 0, -0.01), strict=True)
    ]
    claim = about(
        "overfit", [row(frey_claims.MATRIX, "EfNf", elbo, **{"train ELBO": fitted})]
    )
    assert f"{frey_claims.MAX_GAP} nats" in claim["claim"]
    assert claim["verdict"] == verdict


def test_a_model_must_beat_the_papers_likelihood_without_having_collapsed():
    good, collapsed = [-60.0, -60.1], [0.0, 0.0]
    rows = [
        row(frey_claims.MATRIX, "NfNf", good, KLD=[5.0, 5.1]),
        row(frey_claims.MATRIX, "EfNf", good, KLD=collapsed),
    ]
    verdict = about("higher test LL", rows)["verdict"]
    assert verdict == "depends on the model: holds for NfNf, not for EfNf"


def test_the_effect_of_the_objective_has_its_sign():
    rows = [
        row(frey_claims.MATRIX, "NfNf", [-60.0, -60.2]),
        row(frey_claims.VON_NEUMANN, "NfNf", [-59.0, -59.1]),
    ]
    claim = about("von Neumann", rows)
    assert claim["verdict"] == "holds"
    assert claim["evidence"].startswith("IW +1.05")


def test_rows_of_the_table():
    rows = frey.list_rows(frey.Settings())
    count = {
        (k, group): sum(row[:2] == (k, group) for row in rows)
        for k, group, _, _ in rows
    }
    g = frey_claims
    assert count[5, g.PAPER_RECIPE] == count[5, g.MATRIX] == count[8, g.MATRIX] == 6
    assert (
        count[5, g.JOINT]
        == count[8, g.JOINT]
        == count[8, g.WIDE_CHOLESKY]
        == count[5, g.VON_NEUMANN]
        == 1
    )
    assert count[5, g.CHOLESKY] == count[5, g.WIDE_CHOLESKY] == 2
    duel = (g.JOINT, g.CHOLESKY, g.WIDE_CHOLESKY)
    assert {seeds for k, group, _, seeds in rows if k == 5 and group in duel} == {
        range(300, 316)
    }
    assert {seeds for k, group, _, seeds in rows if k == 8 and group in duel} == {
        range(300, 310)
    }
    assert {len(seeds) for _, group, _, seeds in rows if group not in duel} == {3}
    assert rows[0][1] == g.JOINT  # the longest: no process waits for it
    assert SETTINGS.duel_seeds(2) == range(300, 302)


class Stub(eqx.Module):
    kld: jax.Array

    def sample(self, key, count):
        return jnp.zeros((count, 4))


def test_what_has_collapsed_is_counted(monkeypatch):
    def stub_fit(recipes, splits, latent):
        return types.SimpleNamespace(model=Stub(jnp.array([5.0, 0.01])))

    def stub_score(models, splits, samples, part="test"):
        return {
            name: np.asarray(models.kld)
            for name in ("LL", "KLD", "ELBO", "IW", "IW error")
        }

    monkeypatch.setattr(frey, "fit_recipes", stub_fit)
    monkeypatch.setattr(frey, "score_models", stub_score)
    found = frey.train_row(SETTINGS, frey.TrainedRow(2, "a group", Recipe(), range(2)))
    np.testing.assert_allclose(found["IW"], [5.0, 0.01])
    assert "of 2 models" in frey.make_notes(SETTINGS, [found])[0]
    assert "a group NfNf, k = 2: 1 of 2" in frey.make_notes(SETTINGS, [found])[0]
    papers = found | {"group": frey_claims.PAPER_RECIPE}
    assert (
        "of 0 models trained by our recipes: none"
        in frey.make_notes(SETTINGS, [papers])[0]
    )


def test_figures_are_drawn_from_the_record_alone(tmp_path):
    split = SETTINGS.make_splits([0])[0]
    S = np.round(split.train[:100], 2)
    samples = [{"k": 2, "model": "NdNd", "draws": S.tolist()}]
    pictures = {"shape": (8, 8), "most": 16, "train": S.tolist(), "samples": samples}
    pictures |= images.components_to_json(split.components)
    exact = split.components.decode(split.train[:100])
    np.testing.assert_allclose(
        images.decode_components(pictures, pictures["train"]), exact, atol=1
    )
    record = {
        "settings": {"latents": [2], "data": "DIR"},
        "result": {"pictures": pictures},
    }
    frey.draw(json.loads(json.dumps(record)), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "frey-train.png",
        "frey-2.png",
    }
    packed = {name: images.pack_images(exact) for name in ("dense", "diagonal")}
    record = {"result": {"pictures": {"shape": (8, 8), "images": packed}}}
    frey_pixels.draw(record, tmp_path)
    assert (tmp_path / "frey-pixels.png").stat().st_size > 5_000


def test_without_the_file_a_target_says_where_it_is_and_where_it_goes(
    tmp_path, monkeypatch, capsys
):
    def offline(self, url, output, _):
        raise OSError("no network")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", offline)
    targets = ["frey", "frey-pixels", "collapse"]
    assert run_several(targets, quick=True, data=tmp_path, out=tmp_path / "report") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    for name, line in zip(targets, lines, strict=False):
        assert line.startswith(
            f"{name} failed: could not download {datasets_images.FREY_URL}"
        )
        assert f"put it at {tmp_path / 'frey_rawface.mat'}" in line


def test_collapse_is_judged_over_splits():
    names = ["LL", "KLD", "ELBO", "IW"]
    scores = {
        collapse.LITERAL: {name: [0.0, 0.01] for name in names},
        "+ a": {name: [1.0, 1.1] for name in names},
        "- a": {name: [1.0, 1.1] for name in names},
    }
    found = collapse.judge_claims(scores, [collapse.LITERAL, "+ a"], ["- a"])
    assert [claim["verdict"] for claim in found] == ["holds", "holds", "does not hold"]
    single = {
        name: {key: values[:1] for key, values in by.items()}
        for name, by in scores.items()
    }
    found = collapse.judge_claims(single, [collapse.LITERAL, "+ a"], [])
    assert {claim["verdict"] for claim in found} == {"does not hold"}


def test_the_ladder_ends_in_the_joint_network_and_a_factor_is_taken_out_alone():
    ladders = collapse.make_ladders(collapse.Settings())
    assert len(ladders.added) == 12
    assert len(ladders.removed) == 8
    assert len(ladders.scaled) == 2
    *_, direct, full = ladders.added.values()
    assert full.network == "joint"
    assert full.output == "linear"
    assert full.features == (60, 60, 60)
    without_mlp = ladders.removed["- a standard MLP joined to it"]
    assert without_mlp == direct
    assert without_mlp.network == "direct"
    assert ladders.removed["- calibrated initialisation"].calibrated == 0


@pytest.mark.slow
def test_the_table_has_every_row_and_a_verdict_for_each_claim(tmp_path):
    flags = "--images digits --latents 2 --models NdNd,NfNf --compared NfNf --seeds 2 --jobs 1 "
    flags += (
        "--components 4 --train 150 --validation 50 --samples 8 --epochs 1 --hidden 4"
    )
    result = run_one("frey", [*flags.split(), "--out", str(tmp_path)])["result"]
    groups = [row["group"] for row in result["trained"]]
    assert (
        groups.count(frey_claims.PAPER_RECIPE) == groups.count(frey_claims.MATRIX) == 2
    )
    assert set(frey_claims.GROUPS) == set(groups)
    rows = result["tables"][0]["rows"]
    assert [row["group"] for row in rows if "group" in row][:-1] == list(
        frey_claims.GROUPS
    )
    names = {row.get("name") for row in rows}
    assert {"one Gaussian", "Gaussian mixture", "NdNd", "NfNf"} <= names
    files = {path.name for path in tmp_path.iterdir()}
    assert {"frey.json", "frey-2.png", "frey-train.png", "index.html"} <= files
    possible = ("holds", "does not", "depends")
    assert all(claim["verdict"].startswith(possible) for claim in result["claims"])


@pytest.mark.slow
def test_collapse_runs(tmp_path):
    flags = ["--quick", "--jobs", "1", "--images", "digits", "--added", "2", "--back"]
    record = run_one("collapse", [*flags, "--out", str(tmp_path)])
    assert len(record["result"]["tables"]) == 3
