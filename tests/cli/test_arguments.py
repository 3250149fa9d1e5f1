"""Help, and every wrong argument by its exit status and its message."""

import pytest
from command import run

from mmlp.cli.messages import print_message
from mmlp.cli.parsing import parse
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
    text = " ".join(run(capsys, "fit", kind, "--help")[1].replace("│", " ").split())
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


WRONG_ARGUMENTS = [
    ("", "mmlp: `mmlp` needs a command: demo, fit, predict,"),
    ("fit", "mmlp: `mmlp fit` needs a kind: regression, spd or vae; such as `mmlp fit reg"),
    ("predikt m d", "mmlp: `mmlp` has no command predikt; did you mean predict?"),
    ("wind.csv", "mmlp: `mmlp` has no command wind.csv; use demo, fit, predict,"),
    ("--hlep", "has no command --hlep; did you mean --help?"),
    ("fit regresion d.csv", "mmlp: `mmlp fit` has no kind regresion; did you mean regression?"),
    ("fit d.csv", "mmlp: `mmlp fit` has no kind d.csv; use regression, spd or vae, such as"),
    ("fit regression", "mmlp: `mmlp fit regression` needs DATA; `mmlp fit regression --help` says"),
    ("fit vae d.csv --epoch 3", "`mmlp fit vae` has no option --epoch; did you mean --epochs?"),
    ("fit vae d.csv --epochs", "mmlp: --epochs needs a value;"),
    ("fit vae d.csv --test much", "mmlp: --test: it must be a number, got much."),
    ("score m d --jsn", "mmlp: `mmlp score` has no option --jsn; did you mean --json?"),
    ("fit vae d.csv --epochs many", "mmlp: --epochs: it must be a whole number, got many."),
    ("fit vae d.csv --rank 1.5", "mmlp: --rank: it must be a whole number, got 1.5."),
    ("fit vae d.csv --latent x", "mmlp: --latent: it must be a whole number, got x."),
    ("fit vae d.csv --rank 3 --covariance full", "mmlp: --rank 3 is for a covariance of low rank"),
    ("fit vae d.csv --epochs 0", "mmlp: --epochs must be at least 1, got 0."),
    ("fit vae d.csv --batch-size 0", "mmlp: --batch-size must be at least 1, got 0."),
    ("fit vae d.csv --batch-size 1e3", "mmlp: --batch-size: it must be a whole number, got 1e3."),
    ("fit spd d.npz --patience 0", "mmlp: --patience must be at least 1, got 0."),
    ("fit spd d.npz --models 1", "mmlp: --models must be at least 2, got 1."),
    ("fit vae d.csv --models 2", "`mmlp fit vae` has no option --models; it is one of"),
    ("fit vae d.csv --latent -1", "mmlp: --latent must be at least 1, got -1."),
    ("fit vae d.csv --rank 0", "mmlp: --rank must be at least 1, got 0."),
    ("fit regression d.csv --targets u,v --rank 100000", "--rank must be at most 2, the number of"),
    ("fit vae d.csv --rank 99999999999", "mmlp: --rank must be at most 2147483647, got 9999"),
    ("fit vae d.csv --epochs 99999999999999999999", "--epochs must be at most 2147483647, got"),
    ("fit vae d.csv --covariance thin", "mmlp: --covariance must be auto, full or low_rank, got"),
    ("fit vae d.csv --covariance low-rank", "got low-rank; did you mean low_rank?"),
    ("fit vae d.csv --seed -1", "mmlp: --seed must be from 0 to 4294967295, got -1."),
    ("fit vae d.csv --test 20", "mmlp: --test must be a share below 1, such as 0.2, got 20."),
    ("fit vae d.csv --targets a", "has no option --targets; it is one of `mmlp fit regression`."),
    ("fit regression d.csv --targets a b", "mmlp: `mmlp fit regression` has no place for b; `mmlp"),
    ("fit regression -", "mmlp: --targets is needed: the columns of stdin to predict,"),
    (
        "fit regression d.csv",
        "mmlp: --targets is needed: the columns of d.csv to predict, such as --targets u,v.",
    ),
    ("fit regression d.csv --targets ,", "mmlp: --targets is needed"),
    (
        "fit regression d.csv --targets a -o m.pkl",
        "mmlp: cannot write m.pkl: its name must end in .safetensors.",
    ),
    (
        "fit regression d.csv --targets a -o m",
        "mmlp: cannot write m: its name must end in .safetensors.",
    ),
    ("predict m.safetensors", "mmlp: `mmlp predict` needs DATA;"),
    ("predict", "mmlp: `mmlp predict` needs MODEL and DATA;"),
    (
        "predict m.safetensors d.csv -o out.xlsx",
        "mmlp: cannot write out.xlsx: its name must end in .csv, .npz or .npy.",
    ),
    (
        "predict m.safetensors d.csv -o out",
        "mmlp: cannot write out: its name must end in .csv, .npz or .npy.",
    ),
    ("sample m.safetensors", "mmlp: `mmlp sample` needs -n N;"),
    ("sample m.safetensors -n 0", "mmlp: -n must be at least 1, got 0."),
    ("sample m.safetensors -n ten", "mmlp: -n/--rows: it must be a whole number, got ten."),
    (
        "sample m.safetensors -n 5 -o out.json",
        "mmlp: cannot write out.json: its name must end in .csv, .npz or .npy.",
    ),
    ("info", "mmlp: `mmlp info` needs MODEL;"),
    (
        "info d.csv",
        "mmlp: d.csv is a table, not a model; the model comes first, such as wind.safetensors.",
    ),
    ("predict d.csv m.safetensors", "mmlp: d.csv is a table, not a model"),
    ("reproduce all --quick", "run `make reproduce`, or `python -m reproduction example1`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    WRONG_ARGUMENTS,
    ids=[words or "nothing" for words, _ in WRONG_ARGUMENTS],
)
def test_wrong_arguments_end_with_status_2_before_anything_is_read(
    words, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words.split())
    assert (status, out) == (2, "")
    assert message in err
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
