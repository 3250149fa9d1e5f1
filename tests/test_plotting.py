"""Each function draws what was asked for on the axes it is given, and returns them."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Ellipse

from mmlp import (
    Gram,
    LowRankGram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
    metrics,
    plotting,
)

RNG = np.random.default_rng(0)


@pytest.fixture
def ax():
    yield plt.subplots()[1]
    plt.close("all")


def gaussian(n, d):
    return TraceOneGaussian(
        RNG.standard_normal((n, d)),
        Gram.trace_one(RNG.standard_normal((n, d, d))),
        np.full(n, 0.3),
    )


def test_ellipses_have_the_axes_of_the_covariance(ax):
    p = gaussian(4, 3)
    assert plotting.plot_ellipses(p, p.mean, level=0.8, columns=(2, 0), ax=ax) is ax
    drawn = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    V = np.asarray(p.covariance.dense())[:, [[2], [0]], [2, 0]]
    radius = np.sqrt(-2 * np.log(0.2))
    for ellipse, A, centre in zip(drawn, V, np.asarray(p.mean), strict=True):
        np.testing.assert_allclose(ellipse.center, centre[[2, 0]])
        points = ellipse.get_transform().transform(ellipse.get_path().vertices[:1])
        x = ax.transData.inverted().transform(points)[0] - centre[[2, 0]]
        assert x @ np.linalg.solve(A, x) == pytest.approx(radius**2, rel=1e-6)


@pytest.mark.parametrize(
    ("family", "tail"),
    [(TraceOnePowerExponential, (1.3, 0.6)), (TraceOneStudentT, (5.0,))],
)
def test_ellipse_of_any_family_in_two_dimensions_holds_its_probability(
    family, tail, ax
):
    T = np.array([[1.0, 0.5], [0.0, 0.4]])
    p = family(np.zeros((1, 2)), Gram.trace_one(T), 2.0, *tail)
    plotting.plot_ellipses(p, level=0.7, ax=ax)
    ellipse = ax.patches[0]
    edge = ax.transData.inverted().transform(
        ellipse.get_transform().transform(ellipse.get_path().vertices[:1])
    )
    assert metrics.mahalanobis_pit(p, edge)[0] == pytest.approx(0.7, abs=1e-6)


def test_ellipses_of_a_batch_of_two_axes_are_those_of_its_rows(ax):
    """With parameters that broadcast: eta and beta along one axis each."""
    omega, loc = (
        Gram.trace_one(RNG.standard_normal((3, 2, 2))),
        RNG.standard_normal((2, 3, 2)),
    )
    eta, beta = np.array([[1.0], [2.0]]), np.array([0.6, 1.0, 1.4])
    plotting.plot_ellipses(
        TraceOnePowerExponential(loc, omega, eta, 1.3, beta), loc, ax=ax
    )
    drawn = list(ax.patches)
    assert len(drawn) == 6
    row = TraceOnePowerExponential(loc[1], omega, eta[1], 1.3, beta)
    plotting.plot_ellipses(row, ax=ax)
    for one, same in zip(drawn[3:], ax.patches[6:], strict=True):
        np.testing.assert_allclose(
            [*one.center, one.width, one.height],
            [*same.center, same.width, same.height],
        )


def test_heat_maps_show_the_matrix_and_its_correlations(ax):
    A = np.array([[4.0, 1.0], [1.0, 1.0]])
    assert plotting.plot_covariance(Gram.from_dense(A), names=["a", "b"], ax=ax) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), A)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
    ax = plotting.plot_correlation(A)
    np.testing.assert_allclose(ax.images[0].get_array(), [[1, 0.5], [0.5, 1]])


def test_calibration_curves_share_axes(ax):
    pit = RNG.random(50)
    plotting.plot_calibration(pit, label="one", ax=ax)
    lines = len(ax.lines)
    assert plotting.plot_calibration(pit**2, label="two", ax=ax) is ax
    assert len(ax.lines) == lines + 1
    np.testing.assert_allclose(ax.lines[-1].get_ydata()[50], np.mean(pit**2 <= 0.5))


def test_history_of_one_and_of_many_models(ax):
    plotting.plot_history(
        {"loss": np.ones(5), "validation": np.ones(5), "skipped": np.zeros(5)}, ax=ax
    )
    assert len(ax.lines) == 2
    stopped = np.array([[1.0, 2.0], [0.5, 1.0], [0.4, np.nan]])
    ax = plotting.plot_history({"loss": stopped}, log=True)
    assert len(ax.lines) == 3
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), [1.5, 0.75])


def test_images_lie_in_a_grid_in_order(ax):
    images = np.arange(5 * 6.0).reshape(5, 6)
    assert plotting.plot_images(images, (2, 3), columns=3, ax=ax) is ax
    canvas = np.asarray(ax.images[0].get_array())
    assert canvas.shape == (5, 11)
    np.testing.assert_allclose(canvas[3:5, 4:7], images[4].reshape(2, 3))


U = np.array([[1.0, 0, -1, 0, 0, 0], [0, 2, 0, 0, 0, -3]])


def test_loadings_as_images_share_one_scale_and_the_longest_comes_first(ax):
    assert plotting.plot_loadings(LowRankGram(np.ones(6), U), (2, 3), ax=ax) is ax
    canvas = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(canvas[:2, :3], U[1].reshape(2, 3))
    assert ax.images[0].get_clim() == (-3, 3)


def test_loadings_are_bars_of_few_targets_and_lines_of_many(ax):
    assert (
        plotting.plot_loadings(LowRankGram(np.ones(6), U), names=list("abcdef"), ax=ax)
        is ax
    )
    np.testing.assert_allclose(
        [bar.get_height() for bar in ax.patches], np.ravel(U[::-1])
    )
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abcdef")
    lines = plotting.plot_loadings(LowRankGram(np.ones(60), np.tile(U, 10))).lines
    np.testing.assert_allclose(lines[0].get_ydata(), np.tile(U[1], 10))


def test_a_value_with_many_columns_is_drawn_by_some_of_them(ax):
    A = LowRankGram.trace_one(np.ones(5000), np.ones((1, 5000)))
    p = TraceOneGaussian(np.zeros((1, 5000)), A, 1.0)
    assert len(plotting.plot_ellipses(p, columns=(4999, 0), ax=ax).patches) == 1
    for call in (plotting.plot_covariance, plotting.plot_correlation):
        with pytest.raises(
            ValueError, match=r"at most 4096 columns, got 5000.*`A.marginal\(colu"
        ):
            call(A, ax=ax)
    ax = plotting.plot_correlation(A.marginal([0, 4999]))
    np.testing.assert_allclose(ax.images[0].get_array(), [[1, 0.5], [0.5, 1]])


def test_errors_name_call_and_remedy(ax):
    with pytest.raises(ValueError, match="no ellipse"):
        plotting.plot_ellipses(gaussian(2, 1), ax=ax)
    with pytest.raises(ValueError, match="choose a row"):
        plotting.plot_covariance(np.ones((3, 2, 2)), ax=ax)
    with pytest.raises(ValueError, match="one name for each of the 2"):
        plotting.plot_covariance(np.eye(2), names=["a"], ax=ax)
    with pytest.raises(ValueError, match="shape of an image"):
        plotting.plot_images(np.zeros((2, 6)), ax=ax)
    for value, got in (
        (Gram(np.eye(2)), "got Gram"),
        (LowRankGram(np.ones((3, 6)), U), "dimensio"),
    ):
        with pytest.raises(
            ValueError, match=rf"plot_loadings\(A=...\)` must be one.*{got}"
        ):
            plotting.plot_loadings(value, ax=ax)
