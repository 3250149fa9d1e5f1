"""The page about a model: its content for all kinds of tables, and its errors."""

import re

import numpy as np
import pytest
from oracle import INPUTS, TARGETS, Oracle, inputs

import mmlp
from mmlp.reporting import model_report, regression_report
from mmlp.reporting.figures import MAX_LABEL_LENGTH, draw_image, escape_label
from mmlp.reporting.rows import Column, read_column
from mmlp.reporting.spread import bin_column
from mmlp.tables.kinds import Categories

SECTIONS = [
    "scores",
    "calibration",
    "observed",
    "importance",
    "spread",
    "worst",
    "training",
]


quick = pytest.mark.usefixtures("unpainted")


def made(folder, model=None, n=60, X=None, **options):
    """The text of a page about an oracle."""
    model = model or Oracle()
    X = inputs(n) if X is None else X
    y = options.pop("y", None)
    y = model.draw(X, seed=1) if y is None else y
    names = {"inputs": INPUTS, "targets": TARGETS[: model.d]} | options
    return mmlp.report(model, X, y, folder, progress=False, **names).read_text()


def ids(page):
    return re.findall(r'<section id="([^"]+)"', page)


def test_the_page_holds_every_section_and_needs_no_network(tmp_path):
    page = made(tmp_path / "new" / "folder", title="wind on unseen.csv")
    assert ids(page) == SECTIONS
    assert "<h1>wind on unseen.csv</h1>" in page
    assert "4 inputs (level, gust, front, idle), 2 targets (u, v)" in page
    assert "five-fold cross-validation" in page
    assert all(
        source.startswith("data:image/png")
        for source in re.findall('src="([^"]+)"', page)
    )
    assert all(alt for alt in re.findall('alt="([^"]*)"', page))
    assert page.count("<img ") == len(re.findall('alt="', page)) > 10
    assert "http" not in re.sub("http-equiv", "", page)
    assert list((tmp_path / "new" / "folder").iterdir()) == [
        tmp_path / "new/folder/index.html"
    ]


@quick
def test_baselines_learn_from_rows_of_training_if_these_are_given(tmp_path):
    X = inputs(60, seed=3)
    train = X, Oracle().draw(X, seed=2)
    page = made(tmp_path, train=train)
    assert "fitted to 60 training rows" in page
    assert model_report.WARNING_TRAINING_ROWS not in page
    assert model_report.WARNING_TRAINING_ROWS in made(
        tmp_path, X=X, y=train[1], train=train
    )


def test_names_in_figures_may_hold_anything():
    """Formulas, hidden labels, other scripts and long names are painted as they are."""
    for name in ("$a_1", "$", "_hidden", "風速", 'a "quoted" & long name ' * 4):
        label = escape_label(name)
        image = draw_image(
            lambda ax, label=label: ax.plot([0, 1], label=label) and ax.legend(), name
        )
        assert image.data.startswith(b"\x89PNG")
        assert len(label) <= MAX_LABEL_LENGTH + 1


@quick
def test_one_row_makes_a_shorter_page(tmp_path):
    page = made(tmp_path, n=1)
    assert ids(page) == [name for name in SECTIONS if name != "spread"]
    assert page.count("needs at least 20 rows") == 2
    assert "Baselines need 20 training rows, got 1." in page


@quick
def test_one_target_has_no_ellipses_or_correlations(tmp_path):
    page = made(tmp_path, Oracle(d=1))
    assert ids(page) == SECTIONS
    assert "ellipses" not in page
    assert "correlation along" not in page


@pytest.mark.slow
@quick
def test_many_targets_are_cut_short_and_this_is_said(tmp_path):
    page = made(tmp_path, Oracle(d=40), n=25, targets=[f"t{i}" for i in range(40)])
    assert page.count("The first 6 of 40 targets.") == 2
    assert page.count("The first 30 of 40 targets.") == 2
    assert "farthest target" in page


@quick
def test_words_dates_and_blanks_are_shown_as_they_are(tmp_path):
    X = inputs(60).astype(object)
    X[:, 1] = np.random.default_rng(0).choice(["calm", "storm", None], len(X))
    page = made(tmp_path, Oracle(text=True), X=X)
    assert ids(page) == SECTIONS
    assert "by gust." in page


@quick
def test_rows_without_targets_are_left_out_and_counted(tmp_path):
    X = inputs(62)
    y = Oracle().draw(X, seed=1)
    y[3, 1] = y[7, 0] = np.nan
    y[39] += 100
    page = made(tmp_path, X=X, y=y, place="line {}".format)
    assert "60 rows. 2 rows with missing targets are left out." in page
    assert (
        re.search(r'Lowest density.*?<th scope="row">(.*?)<', page, re.DOTALL)[1]
        == "line 39"
    )


@quick
def test_large_tables_are_drawn_from_and_this_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(regression_report, "MAX_ROWS", 60)
    monkeypatch.setattr(regression_report, "MIN_ROWS", 10)
    page = made(tmp_path, n=300)
    assert "60 rows of 300, drawn at random." in page
    assert regression_report.max_rows(Oracle(d=2), None) == 60
    assert regression_report.max_rows(Oracle(d=10_000), None) == 10


@quick
def test_other_files_stay_and_a_page_of_others_is_not_written_over(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "index.html").write_text("<title>matrix-mlp: an older page</title>")
    assert "older" not in made(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "index.html",
        "notes.txt",
    ]
    (tmp_path / "index.html").write_text("<title>my site</title>")
    with pytest.raises(
        ValueError, match="not written by this library; name another folder"
    ):
        made(tmp_path)
    assert (tmp_path / "index.html").read_text() == "<title>my site</title>"
    with pytest.raises(ValueError, match="is a file; name a folder"):
        made(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((0, 4)), np.zeros((0, 2)), r"n at least 1, got \(0, 4\)"),
        (np.zeros((3, 4)), np.zeros((3, 3)), r"y \(n, d\) with d = 2, got shapes"),
        (np.zeros((3, 4)), np.zeros((2, 2)), "needs rows X"),
        (
            np.zeros((3, 4)),
            np.full((3, 2), np.nan),
            r"targets \(y\) are all known; there is none",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_any_work(tmp_path, X, y, message):
    with pytest.raises(ValueError, match=message):
        made(tmp_path / "none", X=X, y=y)
    assert not (tmp_path / "none").exists()


def test_a_model_of_another_library_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="must be a fitted MultivariateRegressor, SPDRegressor"
    ):
        mmlp.report(object(), inputs(3), None, tmp_path)


def test_columns_are_read_as_numbers_dates_or_words():
    cells = np.array(["1", "2.5", "", None, "nan"], object)
    column = read_column("a", cells)
    assert column.kind == "number"
    assert np.array_equal(
        column.values, [1, 2.5, np.nan, np.nan, np.nan], equal_nan=True
    )
    assert (
        read_column("a", np.array(["2020-01-01", "", "2021-03-04"], object)).kind
        == "date"
    )
    words = read_column("a", np.array(["x", "", "y"] * 5, object))
    assert words.kind == "text"
    assert list(words.values[:3]) == ["x", "(missing)", "y"]
    rare = Categories(("x",), rare=5)
    assert (
        read_column("a", np.array(["x", "y"], object), rare).values[1]
        == rare.indicators[1]
    )


def test_rows_are_binned_by_quantiles_by_values_and_by_frequent_levels():
    bins = bin_column(Column("a", "number", np.append(np.arange(24.0), np.nan)))
    assert bins.names is None
    assert np.array_equal(bins.positions, np.arange(12) * 2 + 0.5)
    assert np.array_equal(bins.bin_of_row, np.append(np.repeat(np.arange(12), 2), -1))

    bins = bin_column(Column("a", "number", np.array([1.0, 0, 1, 5])))
    assert np.array_equal(bins.positions, [0, 1, 5])
    assert np.array_equal(bins.bin_of_row, [1, 0, 1, 2])

    days = np.array(["2020-01-01", "2020-01-03", "NaT"], "datetime64[s]")
    bins = bin_column(Column("a", "date", days))
    assert np.array_equal(bins.positions, days[:2])
    assert np.array_equal(bins.bin_of_row, [0, 1, -1])

    words = np.array([f"w{i:02}" for i in range(20)] * 2 + ["w19"], object)
    bins = bin_column(Column("a", "text", words))
    assert len(bins.names) == 12
    assert bins.names[bins.bin_of_row[-1]] == "w19"
    assert min(bins.bin_of_row) == -1
