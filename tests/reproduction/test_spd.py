"""Examples 1 and 2 on tiny settings: what is trained and written; verdicts follow the numbers."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from mmlp.reporting.baselines import log_euclidean_mean, predict_from_neighbours
from mmlp.reporting.results_page import write_results_page
from reproduction import example1, example1_mlp, example2
from reproduction.harness import claims as _claims
from reproduction.harness.run import PAGE_HEADING
from reproduction.searches import spd as search_spd
from reproduction.spd import models
from reproduction.spd.models import Recipe, train_networks, tuned_model
from reproduction.spd.tables import Errors
from reproduction.spd.tasks import Budget, Task, generate_data, split_data

ROOT = Path(__file__).parents[2]

BUDGET = Budget(seeds=2, settings=("turning", "linear"), steps=6, test=20)
TASK = Task(3, 10, BUDGET, first_seed=50)
TINY = Recipe("matrix", (4,), "muon")
RATES = (0.01, 0.02)


def dense(T):
    return np.swapaxes(T, -1, -2) @ T


# -- training many at once -------------------------------------------------------------------------


def test_all_settings_seeds_and_rates_are_trained_at_once_and_again_with_the_same_numbers():
    first = train_networks(TASK, TINY, "von_neumann", RATES)
    assert first.errors.shape == (2, 2, 2, 3)
    assert first.validation.shape == (2, 2, 2)
    assert first.samples.shape == (2, 2, 2, 2, 3, 3)
    assert np.all(np.isfinite(first.errors))
    np.testing.assert_allclose(
        np.trace(first.samples, axis1=-2, axis2=-1), 1, rtol=1e-5
    )
    assert len(np.unique(first.errors[..., 1])) == 8
    assert train_networks(TASK, TINY, "von_neumann", RATES) is first
    train_networks.cache_clear()
    again = train_networks(TASK, TINY, "von_neumann", RATES)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_test_samples_are_the_same_for_each_training_size_and_not_trained_on():
    small, large = (split_data(dataclasses.replace(TASK, train=n)) for n in (20, 100))
    np.testing.assert_array_equal(small[2].X, large[2].X)
    for split, distinct in (
        (small, (16, 4, 20)),
        (large, (80, 20, 20)),
    ):  # a fifth is held out, small sets are repeated
        assert [part.X.shape for part in split] == [
            (4, 80, 20),
            (4, 20, 20),
            (4, 20, 20),
        ]
        assert tuple(len(np.unique(part.X[0], axis=0)) for part in split) == distinct
        assert len(
            np.unique(np.concatenate([part.X[0] for part in split]), axis=0)
        ) == sum(distinct)


def test_the_budget_counts_steps():
    for train in (20, 100):
        task = Task(3, train, dataclasses.replace(BUDGET, steps=1600), 0)
        assert (task.steps_per_epoch, task.epochs) == (16, 100)


def test_baselines_are_ordered_as_they_should_be():
    task = Task(3, 60, BUDGET, first_seed=0)
    rows = {
        name: values.mean((0, 1))
        for name, values in models.score_baselines(task).items()
    }
    assert np.all(rows["noise floor"] < rows["5 nearest neighbours"])
    assert np.all(rows["5 nearest neighbours"] < rows["constant mean"])
    floor = generate_data(task)[0]
    data = dataclasses.replace(
        floor, sampled=floor.sampled[:20], population=floor.population[:20]
    )
    np.testing.assert_allclose(
        models.score_baselines(task)["noise floor"][0, 0],
        list(data.noise_floor().values()),
        rtol=1e-6,
    )


def test_means_of_matrices_are_taken_on_factors():
    rng = np.random.default_rng(0)
    T = np.triu(rng.standard_normal((4, 3, 3))) + 2 * np.eye(3)
    np.testing.assert_allclose(
        dense(models.mean_factor(T)), dense(T).mean(0), rtol=1e-12
    )
    D = np.array(
        [1.0, 1e-4, 1e-9]
    )  # commuting matrices: the geometric mean of the eigenvalues
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    pair = np.stack([np.diag(D) @ Q, np.diag(D**0.5) @ Q])
    expected = Q.T @ np.diag(D**1.5) @ Q
    np.testing.assert_allclose(
        dense(log_euclidean_mean(pair)),
        expected / np.trace(expected),
        rtol=1e-9,
    )
    near = predict_from_neighbours(
        np.array([[0.0], [1.0], [9.0]]), T[:3], np.array([[8.0]]), 1
    )
    np.testing.assert_allclose(
        dense(near[0]), dense(T[2]) / np.trace(dense(T[2])), rtol=1e-9
    )


def test_tuned_recipes_are_the_best_of_the_record_and_rivals_had_as_many_trials():
    record = json.loads((ROOT / "results" / "search" / "spd.json").read_text())
    found, chosen = (
        search_spd.choose_best(record["tried"]),
        json.loads(models.TUNED_SETTINGS.read_text()),
    )
    grid = set(record["rates"])
    for task, setting in itertools.product(record["tasks"], ("turning", "linear")):
        d = str(task["dim"])
        for family, best in chosen[d][setting].items():
            assert best == found[d][setting][family]
            recipe, rate, _ = tuned_model(family, task["dim"], setting)
            assert (recipe, rate) == (Recipe(**best["recipe"]), best["rate"])
        for family in ("joint", "Cholesky"):
            tried = [
                (Recipe(**entry["recipe"]), entry["rate"])
                for entry in record["tried"]
                if (entry["d0"], entry["family"]) == (task["dim"], family)
                and setting in (entry["validation"] or {})
            ]
            wanted = set(itertools.product(search_spd.FAMILIES[family], grid))
            assert wanted <= set(tried)
            assert setting == "turning" or len(tried) == len(wanted) == 36
    assert tuned_model("shallow", 10, "linear") == tuned_model("shallow", 10, "turning")


def test_tuning_chooses_the_best_validation_loss():
    tried = search_spd.search([TASK], RATES, {"tiny": [TINY]})["tried"]
    for setting, found in search_spd.choose_best(tried)[str(TASK.dim)].items():
        scores = {entry["rate"]: entry["validation"][setting] for entry in tried}
        assert found["tiny"]["rate"] == min(scores, key=scores.__getitem__)
        assert found["tiny"]["validation"] == min(scores.values())


# -- claims ----------------------------------------------------------------------------------------


def made_up(value) -> Errors:
    """Errors of every row of Example 1 by a function of (row, setting, d0, n, measure)."""
    rows = [
        *example1.make_models(10, "turning"),
        *example1_mlp.make_models(10, "turning"),
        models.MEAN_ROW,
        models.NEIGHBOURS_ROW,
        models.FLOOR_ROW,
    ]
    cases = itertools.product(("turning", "linear"), (10, 20), (20, 100))
    spread = 1 + 0.001 * np.arange(5)[:, None]
    return {
        case: {
            row: spread * np.array([value(row, *case, m) for m in range(3)])
            for row in rows
        }
        for case in cases
    }


def verdicts(claims):
    return [claim["verdict"] for claim in claims]


def test_verdicts_of_example1_follow_the_numbers():
    def good(row, setting, d, n, m):
        return {models.FLOOR_ROW: 1.0, example1.OURS: 1.5}.get(
            row, 2.0 if "QRE" in row else 3.0
        )

    assert (
        verdicts(example1.judge_claims(made_up(good), made_up(good))) == ["holds"] * 4
    )

    def bad(row, setting, d, n, m):
        return {models.FLOOR_ROW: 1.0, example1.OURS: 5.0}.get(
            row, 4.0 if "QRE" in row else 3.0
        )

    assert (
        verdicts(example1.judge_claims(made_up(bad), made_up(bad)))
        == ["does not hold"] * 4
    )

    def mixed(row, setting, d, n, m):
        if row == example1.OURS:
            return 1.5 if d == 10 else 2.5
        if row.endswith("Stein") and m == 2:
            return 1.0
        return good(row, setting, d, n, m)

    first, reached, simple, cholesky = verdicts(
        example1.judge_claims(made_up(mixed), made_up(mixed))
    )
    assert first == "depends on measure: holds for E_quad, E_QRE, not for E_Stein"
    assert reached == "depends on d0: holds for 10, not for 20"
    assert cholesky == "depends on d0: holds for 10, not for 20"
    assert simple.startswith("depends on")


def test_verdicts_on_the_plain_mlp_follow_the_numbers():
    def value(row, setting, d, n, m):
        return 100.0 if row == example1_mlp.MLP else 1.0

    assert verdicts(example1_mlp.judge_claims(made_up(value))) == [
        "holds",
        "holds",
        "does not hold",
        "holds",
    ]


def test_verdicts_of_example2_follow_the_numbers():
    def errors(deep, shallow):
        return {
            (s, d, r, design, j): (deep if design == example2.DEEP else shallow)(r, j)
            * (1 + 0.001 * np.arange(5))
            for s, d, r, design, j in itertools.product(
                ("turning", "linear"),
                (10, 20),
                example2.RECIPES,
                (example2.DEEP, example2.SHALLOW),
                (2, 4, 6),
            )
        }

    assert verdicts(
        example2.judge_claims(errors(lambda r, j: 1.0, lambda r, j: float(j)))
    ) == [
        "holds",
        "holds",
    ]
    assert verdicts(
        example2.judge_claims(errors(lambda r, j: float(j), lambda r, j: 1.0))
    ) == [
        "does not hold",
        "does not hold",
    ]
    mixed = example2.judge_claims(
        errors(lambda r, j: 2.0, lambda r, j: 1.0 if r == "tuned" else 3.0)
    )
    assert (
        mixed[0]["verdict"]
        == "depends on recipe: holds for the paper's recipe, not for tuned"
    )


def test_nothing_is_ahead_with_one_seed_or_within_two_standard_errors():
    assert not _claims.is_smaller(np.array([1.0]), np.array([2.0]))
    assert not _claims.is_smaller(np.array([1.0, 1.0]), np.array([1.1, 3.0]))
    assert _claims.is_smaller(
        np.array([1.0, 5.0]), np.array([1.1, 5.1001])
    )  # paired: the seeds differ more than the models


def test_a_claim_without_a_deciding_factor_is_counted():
    cases = itertools.product((10, 20), (20, 100))
    outcomes = [({"d0": d, "n": n}, (d == 10) == (n == 20)) for d, n in cases]
    assert _claims.decide_verdict(outcomes) == "depends on the case: holds in 2 of 4"


# -- the records -----------------------------------------------------------------------------------


def record_of(name, result):
    return {"experiment": name, "result": result}


@pytest.fixture
def untrained(monkeypatch):
    """Networks are not trained: errors come from the names of recipe and loss."""

    def made_up_outcome(task, recipe, loss, rates):
        shape = (len(task.budget.settings), task.budget.seeds, len(rates))
        rng = np.random.default_rng(
            [len(recipe.widths), len(loss), task.dim, task.train]
        )
        samples = np.broadcast_to(
            np.eye(task.dim) / task.dim, (*shape, 2, task.dim, task.dim)
        )
        return models.Outcome(rng.uniform(0.1, 1, (*shape, 3)), np.ones(shape), samples)

    monkeypatch.setattr(models, "train_networks", made_up_outcome)


@pytest.mark.parametrize(
    ("name", "module", "rows", "options"),
    [
        ("example1", example1, 12, {"sizes": (20, 25)}),
        ("example1-mlp", example1_mlp, 9, {"sizes": (20, 25)}),
        ("example2", example2, 7, {"depths": (2, 4)}),
    ],
)
def test_records_have_a_row_for_each_model_and_fit_the_page(
    name, module, rows, options, untrained, tmp_path
):
    settings = module.Settings(seeds=3, test=20, dims=(10, 20), **options)
    record = record_of(name, module.run(settings))
    text = json.dumps(record)
    assert len(text) < 300_000
    (tmp_path / f"{name}.json").write_text(text)
    if name == "example1":
        module.draw(json.loads(text), tmp_path)
    assert write_results_page(tmp_path, PAGE_HEADING) == {}
    tables, more = record["result"]["tables"][:2], record["result"]["tables"][2:]
    assert [table["title"] for table in tables] == [
        "Setting: turning",
        "Setting: linear",
    ]
    assert [len(table["rows"]) for table in more] == (
        [4] if name == "example1" else []
    )  # head to head
    groups = 1 if name == "example2" else 4
    assert all(
        sum("name" in row for row in table["rows"]) == rows * groups for table in tables
    )
    published = [
        c
        for row in tables[0]["rows"]
        for c in row.get("cells", [])
        if c.get("paper") is not None
    ]
    assert len(published) == {"example1": 18, "example1-mlp": 6, "example2": 8}[name]


@pytest.mark.slow
@pytest.mark.parametrize("module", [example1, example1_mlp, example2])
def test_quick_runs_end(module, tmp_path):
    result = module.run(module.Settings(**module.Settings.QUICK))
    if "figures" in result:
        module.draw(json.loads(json.dumps(record_of("x", result))), tmp_path)
