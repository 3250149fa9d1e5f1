"""What the command does not import, and that it is there all the same for who asks."""

import subprocess
import sys

import pytest
from processes import environment

CODE = """
import sys
from mmlp.cli.quick_start import import_sklearn_without_extras, postpone_import

import_sklearn_without_extras()
import mmlp.cli.commands
import numpy as np
from mmlp.tables.encoder import TableEncoder
X = np.arange(20.0).reshape(10, 2)
assert TableEncoder().fit_transform(X).shape == (10, 2)
loaded = [name for name in sys.modules if name.startswith(("scipy.stats.", "pandas", "matplotlib"))]
assert loaded == [], loaded
assert not postpone_import("scipy.stats") and not postpone_import("no_such_module")

import scipy.stats
from sklearn.linear_model import LinearRegression
assert scipy.stats.norm.cdf(0) == 0.5
from scipy.stats import chi2
assert chi2.sf(0, 1) == 1
assert LinearRegression().fit([[0], [1]], [1, 2]).coef_.round(6) == [1]
import pandas
assert len(LinearRegression().fit(pandas.DataFrame({"a": [0, 1]}), [1, 2]).feature_names_in_) == 1
"""


@pytest.mark.slow
def test_scipy_s_statistics_and_pandas_wait_until_they_are_used():
    command = [sys.executable, "-c", CODE]
    options = {
        "env": environment(__file__),
        "capture_output": True,
        "text": True,
        "timeout": 300,
    }
    done = subprocess.run(command, **options)
    assert (done.returncode, done.stderr) == (0, "")
