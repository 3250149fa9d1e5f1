"""Help, and every wrong argument by its exit status and its message."""

import dataclasses

import pytest
from command import run

from mmlp.cli.arguments import DEFAULT_REPORT_FOLDER, KINDS, option_names, parse
from mmlp.cli.messages import print_message
from mmlp.estimators.model_files import kinds


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "-h",
        "help",
        "fit --help",
        "help fit",
        "fit regression --help",
        "help fit vae",
        "predict -h",
    ],
)
def test_help_goes_to_stdout_and_succeeds(words, capsys):
    status, out, err = run(capsys, *words.split())
    assert (status, err) == (0, "")
    assert "usage: mmlp" in out
    assert "$ mmlp" in out  # an example


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "fit regression",
        "fit spd",
        "fit vae",
        "predict",
        "score",
        "sample",
        "info",
    ],
)
def test_every_command_has_help(command, capsys):
    status, out, _ = run(capsys, *command.split(), "--help")
    assert status == 0
    assert f"usage: mmlp {command}" in out
    root = run(capsys, "--help")[1] + run(capsys, "fit", "--help")[1]
    assert command.split()[-1] in root


@pytest.mark.parametrize("kind", ["regression", "spd", "vae"])
def test_help_states_the_defaults_of_each_kind(kind, capsys):
    params = kinds()[kind]().get_params()
    text = " ".join(run(capsys, "fit", kind, "--help")[1].split())
    by_rows = {"max_epochs": "500, and fewer for more than 600 rows"}
    by_rows |= {"batch_size": "64, and up to 256 where rows are many"}
    options = {"--epochs N": "max_epochs", "--batch-size ROWS": "batch_size"}
    options |= {"--patience N": "patience", "--models N": "n_models"}
    for option, name in options.items():
        assert (option in text) == (name in params)
        if name in params:
            described = text[text.rindex(option) :]  # at the option, not in an example
            default = params[name] or by_rows[name]
            assert described[described.index("(default: ") :].startswith(
                f"(default: {default})"
            )


# The words, and what the answer must name.
WRONG_ARGUMENTS = {
    "": ["command", "demo, fit, predict", "`mmlp demo`"],
    "fit": ["kind", "regression, spd or vae", "`mmlp fit regression"],
    "predikt m d": ["no command predikt", "did you mean predict?"],
    "wind.csv": ["no command wind.csv", "demo, fit, predict"],
    "--hlep": ["no command --hlep", "did you mean --help?"],
    "reproduce all --quick": ["`make reproduce`", "`python -m reproduction example1`"],
    "fit regresion d.csv": ["no kind regresion", "did you mean regression?"],
    "fit d.csv": ["no kind d.csv", "regression, spd or vae"],
    "fit regression": ["required: DATA", "`mmlp fit regression --help`"],
    "predict m.safetensors": ["required: DATA"],
    "predict": ["required: MODEL, DATA"],
    "info": ["required: MODEL"],
    "sample m.safetensors": ["required: -n"],
    "fit vae d.csv --epoch 3": ["no option --epoch", "did you mean --epochs?"],
    "fit vae d.csv --epoch=3": ["no option --epoch;", "did you mean --epochs?"],
    "score m d --jsn": ["no option --jsn", "did you mean --json?"],
    "fit vae d.csv --models 2": ["no option --models", "`mmlp fit regression`"],
    "fit vae d.csv --targets a": ["no option --targets", "`mmlp fit regression`"],
    "fit regression d.csv --targets a b": ["no place for b"],
    "fit vae d.csv --epochs": ["--epochs expected one argument."],
    "fit vae d.csv --test much": ["--test must be a number, got much."],
    "fit vae d.csv --epochs many": ["--epochs must be a whole number, got many."],
    "fit vae d.csv --rank 1.5": ["--rank must be a whole number, got 1.5."],
    "fit vae d.csv --latent x": ["--latent must be a whole number, got x."],
    "fit vae d.csv --batch-size 1e3": ["--batch-size must be a whole number, got 1e3."],
    "sample m.safetensors -n ten": ["-n/--rows must be a whole number, got ten."],
    "sample m.safetensors -n 0": ["-n/--rows must be at least 1, got 0."],
    "fit vae d.csv --epochs 0": ["--epochs must be at least 1, got 0."],
    "fit vae d.csv --batch-size 0": ["--batch-size must be at least 1, got 0."],
    "fit spd d.npz --patience 0": ["--patience must be at least 1, got 0."],
    "fit spd d.npz --models 1": ["--models must be at least 2, got 1."],
    "fit vae d.csv --latent -1": ["--latent must be at least 1, got -1."],
    "fit vae d.csv --rank 0": ["--rank must be at least 1, got 0."],
    "fit vae d.csv --rank 99999999999": ["--rank", "2147483647", "99999999999"],
    "fit vae d.csv --epochs 99999999999": ["--epochs", "2147483647", "99999999999"],
    "fit vae d.csv --seed -1": ["--seed must be at least 0, got -1."],
    "fit vae d.csv --seed 4294967296": ["--seed must be at most 4294967295"],
    "fit vae d.csv --covariance thin": [
        "--covariance",
        "auto, full or low_rank",
        "thin",
    ],
    "fit vae d.csv --covariance low-rank": ["did you mean low_rank?\n"],
    "fit vae d.csv --decimal ;": ["--decimal", "';'"],
    "fit vae d.csv --decimal , --thousands ,": ["--decimal", "--thousands", "','"],
    "fit vae d.csv --test 20": ["--test", "below 1", "got 20."],
    "fit vae d.csv --rank 3 --covariance full": ["--rank 3", "--covariance full"],
    "fit regression d.csv --targets u,v --rank 9": [
        "--rank must be at most 2",
        "got 9",
    ],
    "fit regression -": ["--targets is needed", "stdin"],
    "fit regression d.csv": ["--targets is needed", "d.csv", "--targets u,v"],
    "fit regression d.csv --targets ,": ["--targets is needed"],
    "fit regression d.csv --targets a -o m.pkl": ["m.pkl", ".safetensors"],
    "fit regression d.csv --targets a -o m": ["cannot write m:", ".safetensors"],
    "predict m.safetensors d.csv -o out.xlsx": ["out.xlsx", ".csv, .npz or .npy"],
    "predict m.safetensors d.csv -o out": ["cannot write out:", ".csv, .npz or .npy"],
    "sample m.safetensors -n 5 -o out.json": ["out.json", ".csv, .npz or .npy"],
    "info d.csv": ["d.csv is a table", "wind.safetensors"],
    "predict d.csv m.safetensors": ["d.csv is a table"],
}


@pytest.mark.parametrize("words", WRONG_ARGUMENTS)
def test_wrong_arguments_end_with_status_2_before_anything_is_read(
    words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words.split())
    assert (status, out) == (2, "")
    for fact in WRONG_ARGUMENTS[words]:
        assert fact in err
    assert err.startswith("mmlp: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_options_of_training_are_those_of_the_estimator():
    words = "fit regression d.csv --targets u --batch-size 512 --patience 7 --models 3 --epochs 9"
    params = parse(words.split()).params()
    wanted = {"batch_size": 512, "patience": 7, "n_models": 3, "max_epochs": 9}
    assert wanted.items() <= params.items()
    for kind, words in (("regression", "--targets u"), ("spd", ""), ("vae", "")):
        bare = parse(["fit", kind, "d.npz", *words.split()]).params()
        assert not bare.keys() & wanted.keys()
        assert bare.keys() <= kinds()[kind]().get_params().keys()


def test_a_message_is_one_line_but_for_the_items_of_a_list(capsys):
    for message, shown in (
        ("two\nlines and\n three ", "mmlp: two lines and three\n"),
        (
            "3 problems:\n  one\n  two\nwide\n\n    three\n",
            "mmlp: 3 problems:\n  one\n  two wide\n  three\n",
        ),
    ):
        print_message(message)
        assert capsys.readouterr().err == shown


def test_options_stand_anywhere_and_names_are_quoted():
    command = parse(
        ["fit", "regression", "--targets", '"a, b",v', "d.csv", "-om.safetensors"]
    )
    assert command.targets == ("a, b", "v")
    assert (str(command.data), str(command.out)) == ("d.csv", "m.safetensors")
    assert parse(["fit", "vae", "d.csv", "--report"]).report == DEFAULT_REPORT_FOLDER
    assert str(parse(["fit", "vae", "d.csv", "--report", "page"]).report) == "page"


def test_errors_name_the_options_of_parameters():
    names = option_names()
    assert names["max_epochs"] == "epochs"
    assert names["n_components"] == "latent"
    for kind, options in KINDS.items():
        parameters = {
            field.metadata.get("parameter") for field in dataclasses.fields(options)
        }
        assert parameters - {None} <= kinds()[kind]().get_params().keys()
