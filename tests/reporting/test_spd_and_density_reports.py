"""The pages about models of kinds spd and vae."""

import re

import numpy as np
import pytest
from oracle import Density, Matrices, inputs
from scipy.linalg import expm, logm

import mmlp
from mmlp.reporting import baselines
from mmlp.reporting.density_report import find_correlated_pairs

pytestmark = pytest.mark.usefixtures("unpainted")


def made(folder, model, X, y=None, **options):
    return mmlp.report(model, X, y, folder, progress=False, **options).read_text()


def ids(page):
    return re.findall(r'<section id="([^"]+)"', page)


def test_the_page_of_matrices(tmp_path):
    X = inputs(60, p=3)
    Y = Matrices().predict(X)
    Y[7] *= 1.5
    page = made(tmp_path, Matrices(), X, Y, inputs=("trace", "bulge", "idle"))
    assert ids(page) == ["scores", "observed", "importance", "worst", "training"]
    assert page.count(">better<") == 6  # than three, here and in the contents
    assert re.search(r'Farthest first.*?<th scope="row">(.*?)<', page, re.DOTALL)[
        1
    ].startswith("row 7 ")
    assert "Most important first: trace, bulge." in page
    assert "No significant loss when shuffled: idle." in page


@pytest.mark.parametrize("given", [False, True])
def test_baselines_of_matrices_are_means_of_rows_that_are_not_judged(given):
    X = np.repeat(
        inputs(8, p=2), 8, axis=0
    )  # each row eight times: its neighbours are equal
    Y = Matrices().predict(X)
    found = baselines.predict_matrices(X, Y, (X, Y) if given else None)
    assert np.allclose(found[baselines.NEAREST_NEIGHBOURS], Y, rtol=0.5)
    if given:
        assert np.allclose(found[baselines.NEAREST_NEIGHBOURS], Y)
        assert np.allclose(found["mean"], Y.mean(axis=0))
        logs = np.mean([logm(A) for A in Y], axis=0)
        assert np.allclose(found["log-Euclidean mean"], expm(logs))


def test_the_page_of_a_density(tmp_path):
    X = Density().sample(400, 1)
    X[5] = [4, -4, 4]
    page = made(tmp_path, Density(), X, inputs=("a", "b", "c"), place="line {}".format)
    assert ids(page) == ["scores", "samples", "latent", "worst", "training"]
    # The Gaussian with a full covariance, which had to be fitted, may be as good.
    assert ">worse<" not in page
    assert "better in log density than one Gaussian with a diagonal covariance" in page
    assert (
        re.search(r'Lowest density.*?<th scope="row">(.*?)<', page, re.DOTALL)[1]
        == "line 5"
    )


@pytest.mark.parametrize(("model", "p"), [(Matrices(d=1), 2), (Density(p=2), 2)])
def test_one_row_makes_a_shorter_page_of_each_kind(tmp_path, model, p):
    X = inputs(1, p=p)
    page = made(tmp_path, model, X, model.predict(X) if model.kind == "spd" else None)
    assert "Baselines need 20 training rows." in page
    assert len(ids(page)) == 5


def test_one_column_is_shown_by_histograms_and_constant_ones_by_words(tmp_path):
    page = made(tmp_path, Density(p=1), inputs(30, p=1))
    assert "Histograms of x0, data and samples" in page
    X = np.column_stack([inputs(30, p=1), np.ones(30)])
    assert "A column is constant" in made(tmp_path, Density(p=2), X)


def test_pairs_are_those_with_the_strongest_correlations():
    X = inputs(200, p=5)
    X[:, 4] = X[:, 1] + 0.1 * X[:, 4]
    assert find_correlated_pairs(X)[0] == (1, 4)
