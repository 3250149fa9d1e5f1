"""The experiments of the paper and of this project, which `python -m reproduction` runs.

This package imports `mmlp` and is not part of what users install.
"""
