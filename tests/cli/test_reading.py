"""Tables as people export them: European numbers, stray words, Excel's first line, odd names."""

import json

import numpy as np
import pytest
from command import no_training, run
from sweeps import sweep

import mmlp
from mmlp.cli.arguments import parse
from mmlp.cli.training_rows import read_training_rows
from mmlp.estimators import cross_fitting
from mmlp.estimators.model_files import kinds
from mmlp.tables.encoder import ColumnTable, TableEncoder
from mmlp.tables.kinds import Categories, Numbers
from mmlp.tables.number_format import NumberFormat
from mmlp.tables.preparation import TrainingData, find_leaks

ROWS = 300
QUICK = ("--epochs", "2", "--models", "2", "--quiet")


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A folder to work in, where nothing is trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    return tmp_path


def decimal_comma(value: float) -> str:
    return f"{value:.1f}".replace(".", ",")


def write_offers(path, price="1.600", line=None):
    """Write areas and rents with decimal commas, and prices of 500 to 999; one price is odd."""
    lines = ["area;price;rent"]
    for i in range(ROWS):
        cell = price if i == 41 else str(500 + 7 * i % 500)
        lines.append(
            f"{decimal_comma(20 + i / 3)};{cell};{decimal_comma(300 + i % 17)}"
        )
    path.write_text("\n".join([line, *lines] if line else lines))


def refuse(capsys, *words):
    """Return what a command says that must fail."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (1, "")
    return err


def fit(capsys, *words):
    """Return the summary of a fit that must succeed, and what it says."""
    status, out, err = run(capsys, "fit", *words, *QUICK, "--json")
    assert status == 0, err
    return json.loads(out), err


def read(*words):
    """Return the kinds of the inputs, by name, that a fit with these words would learn from."""
    command = parse(["fit", *words])
    estimator = kinds()[command.kind](**command.params())
    rows = read_training_rows(command, estimator)
    encoder = TableEncoder(missing=estimator.missing)
    encoder.fit_table(rows.inputs)
    return dict(zip(rows.inputs.names, encoder.kinds_, strict=True))


# European thousands


def test_1_600_beside_decimal_commas_is_refused_with_both_readings(at, capsys):
    write_offers(at / "offers.csv")
    for targets in ("rent", "price"):
        err = refuse(capsys, "fit", "regression", "offers.csv", "--targets", targets)
        assert err == (
            "mmlp: offers.csv, line 43, column 'price': '1.600' may be 1.6 or 1600, as column "
            "'area' has decimal commas ('20,0'); add --decimal , --thousands . if it is 1600, or "
            "write it with a decimal comma if it is 1.6.\n"
        )
    assert "may be 1.6 or 1600" in refuse(capsys, "fit", "vae", "offers.csv")
    write_offers(at / "offers.csv", "1.600,50")
    err = refuse(capsys, "fit", "regression", "offers.csv", "--targets", "rent")
    assert "line 43, column 'price': '1.600,50' is not a number" in err
    write_offers(at / "offers.csv", "1.234.567")
    assert "line 43, column 'price'" in refuse(capsys, "fit", "vae", "offers.csv")


@pytest.mark.slow
def test_separators_settle_it_and_the_model_remembers_them(at, capsys):
    write_offers(at / "offers.csv")
    rows = (at / "offers.csv").read_text()
    (at / "plain.csv").write_text(rows.replace("1.600", "1600").replace(",", "."))
    words = ("regression", "offers.csv", "--targets", "rent")
    summary, _ = fit(capsys, *words, "--decimal", ",", "--thousands", ".")
    assert (summary["decimal"], summary["thousands"]) == (",", ".")
    fit(
        capsys,
        "regression",
        "plain.csv",
        "--targets",
        "rent",
        "-o",
        "plain.safetensors",
    )
    predicted = run(capsys, "predict", "offers.safetensors", "offers.csv")[1]
    assert predicted == run(capsys, "predict", "plain.safetensors", "plain.csv")[1]
    assert predicted.count("\n") == ROWS + 1
    assert run(capsys, "info", "offers.safetensors")[1].count("decimal    ,\n") == 1
    mmlp.estimators.load("offers.safetensors").save("again.safetensors")
    assert mmlp.estimators.load("again.safetensors").number_format_ == NumberFormat(
        ",", "."
    )

    err = refuse(capsys, "predict", "offers.safetensors", "plain.csv")
    assert (
        "column 'area': '20.0' is not a number with decimal mark ',' and thousands"
        in err
    )
    assert "give the options --decimal and --thousands that fit the file" in err
    point = run(capsys, "predict", "offers.safetensors", "plain.csv", "--decimal", ".")
    assert point == (0, predicted, "")
    other = ("--decimal", ",", "--thousands", ".")
    assert (
        run(capsys, "predict", "plain.safetensors", "offers.csv", *other)[1]
        == predicted
    )
    scores = [
        json.loads(
            run(capsys, "score", f"{name}.safetensors", f"{name}.csv", "--json")[1]
        )
        for name in ("offers", "plain")
    ]
    assert scores[0]["energy_score"] == scores[1]["energy_score"]


def test_a_file_with_decimal_points_only_is_not_affected(at, capsys):
    lines = [f"{1 + i % 9}.{125 + i % 800},{i / 4}" for i in range(60)]
    (at / "t.csv").write_text("\n".join(["a,u", *lines]))
    assert 1 < read("regression", "t.csv", "--targets", "u")["a"].fill < 10
    (at / "t.csv").write_text("\n".join(["a,u,word", *(f"{line},x" for line in lines)]))
    assert 1 < read("regression", "t.csv", "--targets", "u")["a"].fill < 10, (
        "cell by cell"
    )


@sweep("column", ["price", "area"])
def test_a_prediction_file_is_read_as_the_table_of_training(column, at, capsys):
    """Where it shows no decimal mark of its own, 1.600 may be either."""
    write_offers(at / "offers.csv", "600")
    fit(capsys, "regression", "offers.csv", "--targets", "rent")
    cells = {"area": "52", "price": "700"} | {column: "1.600"}
    (at / "new.csv").write_text("area;price\n{area};{price}\n".format(**cells))
    err = refuse(capsys, "predict", "offers.safetensors", "new.csv")
    assert err == (
        f"mmlp: new.csv, line 2, column '{column}': '1.600' may be 1.6 or 1600, as the training "
        "table had decimal commas; add --decimal , --thousands . if it is 1600, or --decimal . "
        "if it is 1.6.\n"
    )
    words = ("predict", "offers.safetensors", "new.csv")
    as_thousand = run(capsys, *words, "--thousands", ".")[1]
    as_point = run(capsys, *words, "--decimal", ".")[1]
    assert as_thousand.count("\n") == as_point.count("\n") == 2
    (at / "new.csv").write_text("area;price;note\n{area};{price};3.5\n".format(**cells))
    status, out, err = run(capsys, "predict", "offers.safetensors", "new.csv")
    assert (status, err) == (0, ""), "another column shows decimal points"
    assert out == as_point


@pytest.mark.slow
def test_a_vae_remembers_decimal_commas_too(at, capsys):
    write_offers(at / "offers.csv", "600")
    status, _, err = run(capsys, "fit", "vae", "offers.csv", "--epochs", "1", "--quiet")
    assert status == 0, err
    (at / "new.csv").write_text("area;price;rent\n52;1.600;300\n")
    assert "may be 1.6 or 1600" in refuse(
        capsys, "predict", "offers.safetensors", "new.csv"
    )
    assert "may be 1.6 or 1600" in refuse(
        capsys, "score", "offers.safetensors", "new.csv"
    )


def test_commas_between_thousands_are_refused_and_read_with_the_option(at, capsys):
    lines = [f'{i / 4},"{1 + i % 9},{500 + i % 499}",{i % 7}' for i in range(60)]
    (at / "t.csv").write_text("\n".join(["a,price,u", *lines]))
    err = refuse(capsys, "fit", "regression", "t.csv", "--targets", "u")
    assert (
        "column 'price': '1,500' looks like a number in a form that is not read" in err
    )
    assert "or describe the numbers by --decimal and --thousands" in err
    price = read("regression", "t.csv", "--targets", "u", "--thousands", ",")["price"]
    assert 1500 <= price.fill < 10_000


@pytest.mark.parametrize(
    ("cell", "options", "value"),
    [
        ("1.234,5", (",", "."), 1234.5),
        ("12.345.678", (",", "."), 12345678),
        ("-1 234,5", (",", " "), -1234.5),
        ("1\u00a0234", (",", " "), 1234),
        ("1\u202f234.5", (".", " "), 1234.5),
        ("1'234.5", (".", "'"), 1234.5),
        ("1,234.5", (".", ","), 1234.5),
        ("1,5e3", (",", None), 1500),
        (",5", (",", None), 0.5),
        ("3.5", (",", "."), None),
        ("0.125", (",", "."), None),
        ("1.60", (",", "."), None),
        ("1.600", (",", None), None),
        ("1,5", (".", None), None),
        ("1 234", (",", "."), None),
        ("1.2345", (",", "."), None),
        ("12,34.5", (".", ","), None),
        ("1234.567", (",", "."), None),
    ],
)
def test_numbers_of_a_format_are_read_and_others_are_refused(
    cell, options, value, at, capsys
):
    decimal, thousands = options
    words = ["--decimal", decimal]
    words += [] if thousands is None else ["--thousands", thousands]
    lines = [f"{cell if i == 5 else i};{i}" for i in range(20)]
    (at / "t.csv").write_text("\n".join(["a;u", *lines]))
    table = mmlp.tables.read(at / "t.csv", NumberFormat(*options))
    if value is None:
        err = refuse(capsys, "fit", "regression", "t.csv", "--targets", "u", *words)
        assert f"t.csv, line 7, column 'a': '{cell}' is not a number" in err
    else:
        numbers, problems = table.read_numbers(["a"])
        assert not problems
        assert not table.find_number_problems(["a"])
        assert numbers[5, 0] == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--decimal x", "--decimal must be '.' or ',', got 'x'."),
        (
            "--thousands ..",
            "--thousands must be '.', ',', ' ', \"'\" or '_', got '..'.",
        ),
        (
            "--decimal , --thousands ,",
            "--decimal and --thousands are both ','; leave out one of",
        ),
    ],
)
def test_separators_that_make_no_sense_are_refused_before_any_file_is_read(
    words, message, capsys
):
    for command in ("fit regression t.csv --targets u", "predict m.safetensors t.csv"):
        status, out, err = run(capsys, *command.split(), *words.split())
        assert (status, out) == (2, "")
        assert message in err


def test_text_and_codes_and_dates_survive_given_separators(at):
    cells = ["A 1.600", "1.600", "B"]
    lines = [
        f"{cells[i % 3]};{i % 28 + 1}.03.2024;{i % 4};{decimal_comma(i / 2)}"
        for i in range(60)
    ]
    (at / "t.csv").write_text("\n".join(["word;date;zone;u", *lines]))
    options = ("--thousands", ".", "--categories", "zone")
    word, date, zone = read("regression", "t.csv", "--targets", "u", *options).values()
    assert {*word.levels} == {"A 1.600", "1600", "B"}
    assert date.season is False
    assert {*zone.levels} == {"0", "1", "2", "3"}


def test_text_in_python_is_not_misread_either():
    area = [decimal_comma(20 + i) for i in range(60)]
    price = [str(500 + i) for i in range(59)]
    y = np.arange(60.0)
    X = np.array([area, [*price, "1.600"]], object).T
    model = mmlp.MultivariateRegressor(max_epochs=1)
    for table in (X, X.astype(str)):
        with pytest.raises(
            ValueError, match=r"row 59 \(from 0\), column '1': '1.600' may be 1.6 "
        ):
            model.fit(table, y)


# A stray word


def test_a_stray_word_is_refused_by_its_lines_and_categories_override(at, capsys):
    cylinders = [str((4, 6, 8)[i % 3]) for i in range(ROWS)]
    year = [str(70 + i % 13) for i in range(ROWS)]
    cylinders[-1] = "Total"
    year[20] = year[200] = "unknown"
    lines = [
        f"{c},{y},{i % 50}.5,{i}"
        for i, (c, y) in enumerate(zip(cylinders, year, strict=True))
    ]
    (at / "cars.csv").write_text("\n".join(["cylinders,year,weight,mpg", *lines]))
    words = ("fit", "regression", "cars.csv", "--targets", "mpg")
    remedy = "say by --categories that the column holds categories"
    assert refuse(capsys, *words) == (
        "mmlp: cars.csv has 2 problems:\n"
        "  line 301, column 'cylinders': 'Total' is not a number; correct it, or empty the cell, "
        f"or leave the column out, or {remedy}.\n"
        "  line 22, column 'year': 'unknown' is not a number; correct it, or empty the cell, or "
        f"leave the column out, or {remedy} (also line 202).\n"
    )
    err = refuse(capsys, *words, "--categories", "cylinders")
    assert "cylinders" not in err
    assert "line 22, column 'year'" in err
    err = refuse(capsys, "fit", "vae", "cars.csv")
    assert (
        "'Total' is not a number; correct it, or empty the cell, or leave the column out."
        in err
    )
    found = read(*words[1:], "--categories", "cylinders,year")
    assert [type(kind) for kind in found.values()] == [Categories, Categories, Numbers]


# Columns that are not used, and names with commas


@pytest.fixture
def with_empty_column(at, capsys):
    lines = [f"{i % 7},,same,{i % 5}.5,{i}" for i in range(40)]
    (at / "t.csv").write_text("\n".join(["a,empty,always,b,u", *lines]))
    (at / "less.csv").write_text(
        "\n".join(["b,a,u", *(f"{i % 5}.5,{i % 7},{i}" for i in range(40))])
    )
    summary, _ = fit(capsys, "regression", "t.csv", "--targets", "u")
    return summary


@pytest.mark.slow
def test_columns_that_fit_left_out_are_neither_listed_nor_needed(
    with_empty_column, at, capsys
):
    assert with_empty_column["inputs"] == ["a", "b"]
    assert with_empty_column["left_out"] == ["empty", "always"]
    out = run(capsys, "info", "t.safetensors")[1]
    assert "inputs    a, b\n" in out
    assert "left out  empty, always\n" in out
    whole = run(capsys, "predict", "t.safetensors", "t.csv")
    assert whole[::2] == (0, "")
    assert run(capsys, "predict", "t.safetensors", "less.csv") == whole
    scores = run(capsys, "score", "t.safetensors", "less.csv", "--json")
    assert scores == run(capsys, "score", "t.safetensors", "t.csv", "--json")
    (at / "text.csv").write_text(
        (at / "less.csv").read_text().replace("4.5", "high", 1)
    )
    err = refuse(capsys, "predict", "t.safetensors", "text.csv")
    assert "text.csv, line 6, column 'b': 'high' is not a number" in err
    (at / "few.csv").write_text("b\n1.5\n")
    assert "has no column 'a'" in refuse(capsys, "predict", "t.safetensors", "few.csv")


@pytest.mark.slow
def test_the_report_is_about_the_columns_that_are_used(with_empty_column, at, capsys):
    status, out, err = run(capsys, "report", "t.safetensors", "less.csv", "--quiet")
    assert (status, err) == (0, "")
    page = (at / out.strip()).read_text()
    assert "2 inputs (a, b), 1 target (u)" in page
    assert "always" not in page


@pytest.mark.slow
def test_names_with_commas_are_quoted(at, capsys):
    header = '"speed, m/s","say ""hi""","a,b,c",v'
    lines = [f"{i / 3:.3f},{i % 7}.5,{i % 4},{i % 5}" for i in range(40)]
    (at / "t.csv").write_text("\n".join([header, *lines]))
    words = ("regression", "t.csv", "--targets", '"speed, m/s",v')
    summary, _ = fit(capsys, *words, "--ignore", '"a,b,c"')
    assert summary["targets"] == ["speed, m/s", "v"]
    assert summary["inputs"] == ['say "hi"']
    fit(
        capsys,
        *words,
        "--overwrite",
        "--categories",
        '"a,b,c"',
        "--ignore",
        '"say ""hi"""',
    )
    out = run(capsys, "predict", "t.safetensors", "t.csv")[1]
    assert out.startswith('"mean_speed, m/s",mean_v,')


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--targets", "speed, m/s,v"), """--targets '"speed, m/s",v'."""),
        (("--targets", "v,speed, m/s"), """--targets 'v,"speed, m/s"'."""),
        (("--targets", "v", "--ignore", "a,b,c"), """--ignore '"a,b,c"'."""),
        (("--targets", "v", "--categories", "a,b,c"), """--categories '"a,b,c"'."""),
    ],
)
def test_a_name_that_was_split_is_explained(words, remedy, at, capsys):
    (at / "t.csv").write_text('"speed, m/s","a,b,c",v\n1,2,3\n4,5,6\n')
    err = refuse(capsys, "fit", "regression", "t.csv", *words)
    assert "has a comma: quote it, " + remedy in err


def test_a_list_of_names_that_cannot_be_split(capsys):
    for text in ('"speed', '"speed"x,v'):
        status, out, err = run(capsys, "fit", "regression", "t.csv", "--targets", text)
        assert (status, out) == (2, "")
        assert "--targets must be names separated by commas" in err
        assert err.count("\n") == 1


# Everything at once, and Excel's first line


def test_ragged_rows_faulty_names_and_bad_cells_in_one_answer(at, capsys):
    lines = [f"{i},{i}.5,,{i}" for i in range(40)]
    lines[3] = "3,4"
    lines[20] = "20,bad,1,20"
    lines[30] = "30,30.5,,30,,"
    (at / "t.csv").write_text("\n".join(["a,b,,u", *lines]))
    err = refuse(capsys, "fit", "regression", "t.csv", "--targets", "u")
    places = [line.partition(":")[0].strip() for line in err.splitlines()[1:]]
    assert places == ["line 1", "line 22, column 'b'", "line 5", "line 32"]
    err = refuse(capsys, "fit", "regression", "t.csv", "--targets", "w")
    assert "there is no column 'w'; it has" in err
    assert "line 5: 2 cells where there are 4 columns" in err
    assert "line 5: 2 cells" in refuse(capsys, "fit", "vae", "t.csv", "--ignore", "u")


@pytest.mark.parametrize("command", ["predict", "score", "report"])
def test_a_fitted_model_tells_everything_at_once_too(command, here, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text("a,b,u,v\n1,2,3,4\n1,2\n1,two,3,4\n")
    err = refuse(capsys, command, "regression.safetensors", path)
    places = [line.partition(":")[0].strip() for line in err.splitlines()[1:]]
    assert places == ["line 4, column 'b'", "line 3"]
    path.write_text("a,b,u,v\n1,2,3,4\n1,2\n1,2,3,4\n")
    err = refuse(capsys, command, "regression.safetensors", path)
    assert "line 3: 2 cells where there are 4 columns" in err


def test_the_separator_line_of_excel(at, capsys):
    write_offers(at / "offers.csv", "oops", line="sep=;")
    err = refuse(capsys, "fit", "regression", "offers.csv", "--targets", "rent")
    assert err.startswith(
        "mmlp: offers.csv, line 44, column 'price': 'oops' is not a number;"
    )
    write_offers(at / "offers.csv", "700", line="sep=;")
    assert read("regression", "offers.csv", "--targets", "rent")["area"].commas


def test_commas_between_thousands_beside_points_are_not_decimal_commas(at, capsys):
    write_offers(at / "offers.csv", "600")
    fit(capsys, "regression", "offers.csv", "--targets", "rent")
    (at / "new.csv").write_text('area,price\n2.5,700\n"1,234",800\n')
    err = refuse(capsys, "predict", "offers.safetensors", "new.csv")
    assert err == (
        "mmlp: new.csv, line 3, column 'area': '1,234' may be 1.234 as in training or 1234, as "
        "another cell is '2.5'; write all decimals with a point and no thousands separators, or "
        "describe the numbers by --decimal and --thousands.\n"
    )
    words = (
        "predict",
        "offers.safetensors",
        "new.csv",
        "--decimal",
        ".",
        "--thousands",
        ",",
    )
    as_thousand = run(capsys, *words)
    (at / "new.csv").write_text("area,price\n2.5,700\n1234,800\n")
    assert run(capsys, "predict", "offers.safetensors", "new.csv") == as_thousand


def test_a_decimal_comma_in_a_column_of_whole_numbers_is_read_with_the_option(
    at, capsys
):
    write_offers(at / "offers.csv", "600")
    fit(capsys, "regression", "offers.csv", "--targets", "rent")
    (at / "new.csv").write_text("area;price\n52,5;700,5\n")
    err = refuse(capsys, "predict", "offers.safetensors", "new.csv")
    assert (
        "'700,5' is not a number; write decimals with a point, or describe the numbers by"
        in err
    )
    assert (
        run(capsys, "predict", "offers.safetensors", "new.csv", "--decimal", ",")[0]
        == 0
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_long_codes_of_a_file_of_numbers_stay_different(at, capsys):
    """A float holds no whole number of more than 53 bits."""
    codes = [2**60 + 1, 2**60 + 2, 2**60 + 3]
    lines = [f"{codes[i % 3]},{i % 7},{i % 5}" for i in range(30)]
    (at / "t.csv").write_text("\n".join(["code,a,u", *lines]))
    fit(capsys, "regression", "t.csv", "--targets", "u", "--categories", "code")
    model = mmlp.estimators.load(at / "t.safetensors")
    assert model.columns_.kinds_[0] == Categories(tuple(map(str, codes)))
    (at / "new.csv").write_text(f"code,a\n{2**60},1\n")
    status, _, err = run(capsys, "predict", "t.safetensors", "new.csv")
    assert status == 0
    assert f"values that were not in training: '{2**60}'" in err


def test_of_two_rows_no_input_is_a_copy_of_a_target():
    """Two points are always on a line."""
    X = np.array([[1.0], [2.0], [5.0]])
    y = 2 * X
    for n, count in ((2, 0), (3, 1)):
        columns = ColumnTable(X[:n], ["a"], [False], (Numbers(),))
        data = TrainingData(columns, y[:n], ("u",), np.arange(n), "")
        assert len(find_leaks(data)) == count


def test_a_target_that_is_constant_is_not_called_y(at, capsys):
    (at / "same.csv").write_text("\n".join(["a,u", *(f"{i},7" for i in range(30))]))
    err = refuse(capsys, "fit", "regression", "same.csv", "--targets", "u", *QUICK)
    assert "the target is constant over the 30 rows" in err


@pytest.mark.slow
def test_durations_in_text_are_predicted_as_they_were_fitted(at, capsys):
    lines = [f"{i % 9} days {i % 24:02d}:30:00,{i % 5},{i}" for i in range(40)]
    (at / "t.csv").write_text("\n".join(["waited,a,u", *lines]))
    fit(capsys, "regression", "t.csv", "--targets", "u")
    for command in ("predict", "score"):
        status, _, err = run(capsys, command, "t.safetensors", "t.csv")
        assert status == 0, err


@pytest.mark.filterwarnings("default")
def test_problems_of_a_score_are_named_by_lines_of_the_whole_file(at, capsys):
    """Also where rows before them are left out, because they lack a target."""
    lines = [f"{i % 7},{i % 5},{i}" for i in range(40)]
    (at / "t.csv").write_text("\n".join(["a,b,u", *lines]))
    fit(capsys, "regression", "t.csv", "--targets", "u")
    lines[3] = "3,3,"
    lines[20] = "many,0,20"
    (at / "t.csv").write_text("\n".join(["a,b,u", *lines]))
    err = refuse(capsys, "score", "t.safetensors", "t.csv")
    assert "t.csv, line 22, column 'a': 'many' is not a number" in err
