"""What makes a run another run: any number in its program, wherever it stands; and nothing else."""

import functools
import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend.core import ClosedJaxpr, Literal
from processes import environment

import mmlp
from mmlp.training.arguments import Arguments, prepare_run
from mmlp.training.fingerprint import digest_function, digest_tree, fingerprint_run

KEY = jax.random.key(0)
X = np.linspace(-1, 1, 24).reshape(8, 3)
TABLE = np.random.default_rng(0).normal(size=(2, 3000))
CHANGED = TABLE.copy()
CHANGED[1, 1234] += 1e-9
assert repr(TABLE) == repr(CHANGED)


def model():
    return eqx.nn.Linear(3, 1, key=KEY)


def fingerprint(loss, optimizer=optax.sgd(0.1)):
    arguments = Arguments(
        call="fit",
        model=model(),
        loss=loss,
        data=X,
        key=KEY,
        epochs=1,
        batch_size=4,
        optimizer=optimizer,
        validation=None,
        patience=None,
    )
    return fingerprint_run(prepare_run(arguments))


# -- where a constant may stand: functions of a number y, with a table of any shape ----------------


def plain(table, y):
    return jnp.mean(jnp.asarray(table) * y)


def jitted(table, y):
    return jax.jit(lambda y: plain(table, y))(y)


def of_jax(table, y):
    return jax.jit(functools.partial(plain, jnp.asarray(table)))(y)


def filter_jitted(table, y):
    return eqx.filter_jit(lambda y: plain(table, y))(y)


def nested(table, y):
    return jax.jit(lambda y: 2 * jitted(table, y))(y)


def scanned(table, y):
    return jax.lax.scan(lambda y, _: (plain(table, y), None), y, length=2)[0]


def branch(table, y):
    return jax.lax.cond(y > 0, lambda y: plain(table, y), lambda y: y, y)


def jitted_branch(table, y):
    return jax.lax.cond(y > 0, lambda y: y, lambda y: jitted(table, y), y)


def loop(table, y):
    end = jax.lax.while_loop(lambda y: y < 1, lambda y: y + 2 + plain(table, y), y)
    return jax.lax.stop_gradient(end) * y


def rematerialised(table, y):
    return jax.checkpoint(lambda y: jnp.sin(plain(table, y)))(y)


def custom_jvp(table, y):
    function = jax.custom_jvp(lambda y: plain(table, y))
    function.defjvp(lambda y, dy: (function(*y), plain(table, *dy)))
    return function(y)


def custom_rule(table, y):
    function = jax.custom_vjp(lambda y: y)
    function.defvjp(lambda y: (y, None), lambda _, g: (plain(table, g),))
    return function(y)


def solved(table, y):
    def solve(matvec, b):
        return b / matvec(1.0)

    return jax.lax.custom_linear_solve(
        lambda x: plain(table, x), y, solve, symmetric=True
    )


def mapped(table, y):
    return jnp.sum(jax.vmap(lambda y: jitted(table, y))(y * jnp.arange(3.0)))


PLACES = [
    *(
        plain,
        jitted,
        of_jax,
        filter_jitted,
        nested,
        scanned,
        branch,
        jitted_branch,
        loop,
    ),
    *(rematerialised, custom_jvp, custom_rule, solved, mapped),
]


def loss_with(place, table):
    return lambda model, batch, key, t: place(
        table, jnp.mean(jax.vmap(model)(batch) ** 2)
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_number_in_a_constant_of_the_loss_makes_another_run(place):
    """In a table whose text leaves it out, and alone; the same constants make the same run."""
    for old, new in (
        (TABLE, CHANGED),
        (np.float64(0.3), np.float64(0.3 + 1e-9)),
        (3.0, 3.5),
    ):
        before = fingerprint(loss_with(place, old))
        assert before == fingerprint(
            loss_with(place, np.copy(old) if old is TABLE else old)
        )
        assert before["loss"] != fingerprint(loss_with(place, new))["loss"]


def test_a_random_key_in_a_jitted_part_of_the_loss_counts():
    def loss(seed):
        noise = jax.jit(lambda y, key=jax.random.key(seed): y + jax.random.normal(key))
        return lambda model, batch, key, t: noise(jnp.mean(jax.vmap(model)(batch)))

    assert fingerprint(loss(1)) == fingerprint(loss(1))
    assert fingerprint(loss(1)) != fingerprint(loss(2))


def by_table(table):
    return optax.sgd(
        lambda count: jnp.asarray(table)[0, count] + jnp.asarray(table)[1, count]
    )


def masked(table):
    return optax.masked(
        by_table(table), lambda params: jax.tree.map(lambda _: True, params)
    )


def by_jitted_table(table):
    return optax.sgd(jax.jit(lambda count: jnp.asarray(table)[1, count]))


def scaled(table):
    return optax.chain(
        optax.stateless(
            lambda updates, _: jax.tree.map(lambda u: u * jnp.mean(table), updates)
        ),
        optax.adam(0.1),
    )


@pytest.mark.parametrize("optimizer", [by_table, masked, by_jitted_table, scaled])
def test_a_number_in_a_constant_of_the_optimiser_makes_another_run(optimizer):
    loss = loss_with(plain, 1.0)
    before = fingerprint(loss, optimizer(TABLE))
    assert before == fingerprint(loss, optimizer(TABLE.copy()))
    assert before["optimizer"] != fingerprint(loss, optimizer(CHANGED))["optimizer"]


@pytest.mark.parametrize("place", [plain, nested])
def test_a_finished_run_is_not_returned_for_a_loss_with_another_constant(
    place, tmp_path
):
    def fit(table):
        options = {
            "key": KEY,
            "epochs": 1,
            "batch_size": 4,
            "optimizer": optax.sgd(0.1),
        }
        loss = loss_with(place, table)
        return mmlp.fit(
            model(), loss, X, checkpoint=tmp_path, progress=False, **options
        )

    fit(TABLE)
    fit(TABLE.copy())
    with pytest.raises(ValueError, match=r"holds another run \(it differs in loss\)"):
        fit(CHANGED)


def test_a_program_is_the_same_however_often_it_was_traced():
    function = jax.jit(lambda y: plain(TABLE, y))
    digests = {digest_function(jax.grad(function), 1.0)}
    function(1.0)
    jax.make_jaxpr(jax.vmap(function))(jnp.ones(3))
    digests.add(digest_function(jax.grad(function), 1.0))
    digests.add(digest_function(jax.grad(jax.jit(lambda y: plain(TABLE, y))), 1.0))
    jax.clear_caches()
    digests.add(digest_function(jax.grad(function), 1.0))
    assert len(digests) == 1


def all_fingerprints():
    """Of every place and optimiser, the default one too; and of a network of this library."""
    found = [fingerprint(loss_with(place, TABLE)) for place in PLACES]
    optimizers = [make(TABLE) for make in (by_table, masked, by_jitted_table, scaled)]
    optimizers.append(mmlp.default_optimizer(100))
    found += [fingerprint(loss_with(plain, 1.0), optimizer) for optimizer in optimizers]
    network = mmlp.MatrixMLP(3, 2, (4,), key=KEY)
    params, static = eqx.partition(network, eqx.is_inexact_array)

    def loss(params, x):
        target = mmlp.Gram(jnp.eye(2))
        return mmlp.von_neumann(eqx.combine(params, static)(x), target)

    program = digest_function(jax.grad(loss), params, X[0])
    callback = digest_function(lambda y: jax.pure_callback(np.sin, y, y), jnp.ones(2))
    return [*found, program, callback, digest_tree(network)]


@pytest.mark.slow
def test_a_run_has_the_same_fingerprint_in_a_new_process():
    """With another seed for the hashes of texts, so that no order of a set counts."""
    program = """
import json, sys
import conftest, test_fingerprint
print(json.dumps(test_fingerprint.all_fingerprints()))
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command,
        env=environment(__file__, PYTHONHASHSEED="7"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == all_fingerprints()


def test_the_parts_of_a_program_that_the_digest_reads_exist():
    """Jaxprs are read by their attributes, as JAX has them now."""
    program = jax.make_jaxpr(jax.jit(lambda y: plain(TABLE, y) + 2.5))(1.0)
    inner = program.eqns[0].params["jaxpr"]
    assert isinstance(program, ClosedJaxpr)
    assert isinstance(inner, ClosedJaxpr)
    assert hasattr(inner.jaxpr, "constvars")
    literals = [x for e in inner.eqns for x in e.invars if isinstance(x, Literal)]
    assert literals
    assert all(hasattr(x, "val") for x in literals)
    assert not any(hasattr(x, "val") for x in program.jaxpr.invars)
