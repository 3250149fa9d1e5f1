"""Long work is shared among processes, in order, and an error of one ends all."""

import time

import pytest

from reproduction.harness import parallel


def square(x):
    return x * x


def wait_or_fail(seconds):
    time.sleep(seconds if seconds > 0 else 1 / 0)


def test_work_is_done_in_order():
    assert parallel.map_in_processes(square, [(i,) for i in range(5)], "squares") == [
        0,
        1,
        4,
        9,
        16,
    ]


@pytest.mark.slow
def test_processes_share_the_work_and_pass_errors_on():
    assert parallel.map_in_processes(
        square, [(i,) for i in range(5)], "squares", 2
    ) == [0, 1, 4, 9, 16]
    with pytest.raises(TypeError, match="multiply"):
        parallel.map_in_processes(square, [(1,), ("a",)], "squares", 2)
    start = time.perf_counter()
    with pytest.raises(ZeroDivisionError):  # of the second, while the first is at work
        parallel.map_in_processes(wait_or_fail, [(600,), (0,)], "waits", 2)
    assert time.perf_counter() - start < 300
