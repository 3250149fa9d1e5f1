"""Data that stays in a file: the same order, keys and weights as in memory, up to rounding."""

import threading

import jax
import numpy as np
import pytest
from fits import ADAM, KEY, X, Y, equal, fit, loss, model, stacked, weights
from sweeps import sweep

import mmlp
from mmlp.training import checkpoints
from mmlp.training import data as training_data
from mmlp.training.arguments import Arguments, prepare_run
from mmlp.training.epoch import run_epoch
from mmlp.training.fingerprint import digest_tree
from mmlp.training.streaming import StreamedProgram, permute_rows, run_batches


@pytest.fixture
def maps(tmp_path, monkeypatch):
    """The data in files, of which few bytes are read at once: two batches of 2 rows."""
    monkeypatch.setattr(training_data, "MAX_BYTES_PER_CHUNK", 128)
    monkeypatch.setattr(training_data, "MAX_BYTES_PER_READ", 60)
    return mapped(tmp_path, X, Y)


def mapped(folder, *arrays):
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return tuple(
        np.load(folder / f"{i}.npy", mmap_mode="r") for i in range(len(arrays))
    )


def noisy(model, batch, key, t):
    return loss(model, batch, key, t) + 0.01 * t * jax.random.normal(key)


def same(a, b):
    return equal(a.model, b.model) and all(
        np.array_equal(a.history[name], b.history[name], equal_nan=True)
        for name in b.history
    )


def close(a, b, rtol=1e-9):
    pairs = [*zip(weights(a.model), weights(b.model), strict=True)]
    pairs += [(a.history[name], b.history[name]) for name in b.history]
    return all(
        np.allclose(x, y, rtol=rtol, atol=rtol, equal_nan=True) for x, y in pairs
    )


@sweep(("batch_size", "validated"), [(2, 9), (7, 22), (100, None)])
def test_a_fit_on_mapped_files_is_that_in_memory(
    batch_size, validated, maps, monkeypatch
):
    """In six pieces, with a tail, and in one batch that is not full; in a thread that ends."""
    threads = set()
    read_rows = training_data.read_rows

    def watched(*arguments):
        threads.add(threading.current_thread())
        return read_rows(*arguments)

    monkeypatch.setattr("mmlp.training.streaming.read_rows", watched)
    held, files = (
        None if validated is None else tuple(x[:validated] for x in data)
        for data in ((X, Y), maps)
    )
    expected = fit(model(), noisy, (X, Y), batch_size=batch_size, validation=held)
    assert not threads
    result = fit(model(), noisy, maps, batch_size=batch_size, validation=files)
    assert close(result, expected)
    assert len(threads) == 1
    assert not threads & set(threading.enumerate())


def test_files_and_arrays_may_stand_side_by_side_and_results_are_shared(
    maps, tmp_path, monkeypatch
):
    """A run on files, broken off, goes on as if it had not been: on files bit for bit."""

    def stop(info):
        if info.epoch == 2:
            raise RuntimeError("enough")

    options: dict = {"batch_size": 7, "validation": (X[:9], Y[:9])}
    monkeypatch.setattr(checkpoints, "MAX_SHARE_OF_TIME", float("inf"))
    results = []
    for run, data in ((tmp_path / "files", maps), (tmp_path / "memory", (X, Y))):
        with pytest.raises(RuntimeError, match="enough"):
            fit(
                model(),
                noisy,
                (maps[0], Y),
                checkpoint=run,
                on_epoch=(stop,),
                **options,
            )
        assert len(list(run.glob("checkpoint-*"))) == 1
        results.append(fit(model(), noisy, data, checkpoint=run, **options))
    whole = fit(model(), noisy, maps, **options)
    assert same(results[0], whole)
    assert close(results[1], whole)
    assert same(results[1], fit(model(), noisy, maps, checkpoint=run, **options))


def test_double_precision_is_cast_by_pieces_where_jax_has_single(maps):
    with jax.enable_x64(False):
        single = jax.tree.map(lambda x: x.astype("float32"), model())
        expected = fit(single, noisy, (X, Y))
        result = fit(single, noisy, maps)
        file = training_data.MappedArray(maps[0])
        assert digest_tree(file) == digest_tree(X.astype("float32"))
    assert result.history["loss"].dtype == file.dtype == "float32"
    assert close(result, expected, rtol=1e-5)
    assert digest_tree(training_data.MappedArray(maps[0])) == digest_tree(X)


@pytest.mark.parametrize(
    "n", [1, 22, 1624, 1626, 5000, pytest.param(3_000_000, marks=pytest.mark.slow)]
)
def test_the_order_is_that_of_jax(n):
    """Which sorts once up to 1625 rows, twice up to 2.6 million, then three times."""
    assert np.array_equal(permute_rows(KEY, n), jax.random.permutation(KEY, n))


def test_programs_are_compiled_as_hard_as_those_in_memory(maps):
    """At the least effort bits may differ; the tests compile all on one level."""
    efforts = []
    for data in (maps, (X, Y), (X[:2], Y[:2])):
        arguments = Arguments(
            call="fit",
            model=model(),
            loss=loss,
            data=data,
            key=KEY,
            epochs=1,
            batch_size=2,
            optimizer=ADAM,
            validation=None,
            patience=None,
        )
        program = prepare_run(arguments).program
        efforts.append(StreamedProgram(program, len(data[0]), 0).effort)
    assert efforts == ["less", "less", "least"]


def test_chunks_share_a_program_and_cover_each_batch_once():
    for n, size in ((22, 2), (22, 7), (5, 7), (64, 8), (101, 1)):
        data = np.zeros((n, 3), np.float32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training_data, "MAX_BYTES_PER_CHUNK", 100)
            chunks = training_data.plan_chunks(data, size)
        steps = [c.first_batch + i for c in chunks for i in range(c.n_batches)]
        assert steps == list(range(-(-n // size)))
        assert sum(chunk.n_batches * chunk.batch_size for chunk in chunks) == n
        assert len({(chunk.batch_size, chunk.capacity) for chunk in chunks}) <= 2
        max_batches = max(1, 100 // (12 * size))
        assert all(c.n_batches <= c.capacity <= max_batches for c in chunks)


def test_small_files_are_held_and_large_ones_never_are(maps, monkeypatch):
    assert isinstance(
        training_data.check_data(maps, None, call="fit")[0][0],
        training_data.MappedArray,
    )
    view = maps[0][::2, :2]
    assert training_data.is_mapped(np.asarray(view))
    assert not training_data.is_mapped(np.array(view))
    assert not training_data.is_mapped(view + 1)
    monkeypatch.setattr(training_data, "MAX_BYTES_PER_CHUNK", maps[0].nbytes)
    assert isinstance(
        training_data.check_data(maps, None, call="fit")[0][0],
        np.ndarray,
    )


def test_wrong_files_are_named_before_anything_is_compiled(maps, tmp_path):
    compiled = [
        program.find_program.cache_info() for program in (run_epoch, run_batches)
    ]
    bad = X.copy()
    bad[17, 1] = np.nan
    (holed,) = mapped(tmp_path, bad)
    for data, message in (
        (
            (holed, Y),
            r"`fit\(data=...\)\[0\]` must be finite, got nan in row 17 \(index \(17, 1\)",
        ),
        ((maps[0], Y[:-1]), r"same number of rows .*22.*21"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(model(), loss, data)
    keys = jax.random.split(KEY, 2)
    options: dict = {"keys": keys, "epochs": 1, "batch_size": 4}
    with pytest.raises(
        ValueError, match=r"`fit_many\(data=...\)\[0\]` must be in memory.*`np.array"
    ):
        mmlp.fit_many(stacked(keys), loss, maps, **options)
    assert compiled == [
        program.find_program.cache_info() for program in (run_epoch, run_batches)
    ]


def test_numbers_beyond_the_precision_of_jax_are_named_and_any_order_of_bytes_is_read(
    maps, tmp_path
):
    huge, whole = X.copy(), np.arange(66).reshape(22, 3)
    huge[17, 1], whole[16, 2] = 1e300, -(2**31) - 1
    for data in ((huge, whole), mapped(tmp_path, huge, whole)):
        with jax.enable_x64(False):
            for bad, message in (
                (
                    data[0],
                    r"must fit float32, got 1e\+300 in row 17 \(index \(17, 1\)\).*x64",
                ),
                (
                    data[1],
                    r"`fit\(data=...\)\[0\]` must fit int32, got -2147483649; .*x64",
                ),
                (data[1].view("uint64"), "must fit uint32, got 18446744071562067967"),
            ):
                with pytest.raises(ValueError, match=message):
                    fit(model(), loss, (bad, Y))
        training_data.check_data(data, None, call="fit")
    swapped = X.astype(">f8")
    for array in (swapped, *mapped(tmp_path, swapped)):
        held, _ = training_data.check_data(array, array, call="fit")
        assert held.dtype.isnative
        assert np.array_equal(held[:], X)


def test_an_error_while_reading_ends_the_fit(maps, monkeypatch):
    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr("mmlp.training.streaming.read_rows", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        fit(model(), loss, maps)
