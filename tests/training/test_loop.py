"""The epochs of a run: the best of them, and what is told of them."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import optax
from fits import X, Y, equal, fit, loss, model


def test_the_best_weights_are_restored_and_patience_ends_the_run():
    """A huge step overshoots at once: the first epoch stays the best."""
    kept = []
    result = fit(
        *(model(), loss, (X, Y)),
        optimizer=optax.sgd(3.0),
        epochs=50,
        validation=(X, Y),
        patience=4,
        on_epoch=(lambda info: kept.append(info.model()),),
    )
    values = result.history["validation"]
    best = int(np.argmin(values))
    assert len(values) == best + 1 + 4 < 50
    assert equal(result.model, kept[best])


def test_on_epoch_is_told_of_each_epoch_in_turn():
    infos = []
    history = fit(
        model(), loss, (X, Y), validation=(X, Y), on_epoch=[infos.append]
    ).history
    assert [(i.epoch, i.epochs) for i in infos] == [(1, 3), (2, 3), (3, 3)]
    assert [i.loss for i in infos] == history["loss"].tolist()
    assert [i.validation for i in infos] == history["validation"].tolist()
    fit(model(), loss, (X, Y), validation=(X, Y), on_epoch=infos.append)  # one alone
    assert [i.epoch for i in infos] == [1, 2, 3, 1, 2, 3]


def test_history_lies_beside_the_checkpoint_as_json_lines_without_clock_times(tmp_path):
    history = fit(model(), loss, (X, Y), validation=(X, Y), checkpoint=tmp_path).history
    lines = [
        json.loads(line)
        for line in (tmp_path / "history.jsonl").read_text().splitlines()
    ]
    assert [line.pop("epoch") for line in lines] == [1, 2, 3]
    assert {name: [line[name] for line in lines] for name in lines[0]} == {
        k: v.tolist() for k, v in history.items()
    }
    assert set(history) == {"loss", "validation", "skipped", "step_scale"}


def test_fit_works_outside_the_main_thread(tmp_path):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(fit(model(), loss, (X, Y), checkpoint=tmp_path))
    )
    thread.start()
    thread.join()
    assert equal(results[0].model, fit(model(), loss, (X, Y)).model)


def test_import_needs_only_jax_equinox_and_optax():
    names = ("safetensors", "tqdm", "sklearn", "matplotlib", "pooch")
    code = f"import sys; sys.modules.update(dict.fromkeys({names})); import mmlp"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        timeout=120,
    )
