"""Tables as files: .csv, .arff, .npy and .npz."""

from mmlp.tables.core import *  # noqa: F403
