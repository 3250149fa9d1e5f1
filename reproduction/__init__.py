"""The experiments of the paper and of this project: `python -m reproduction`.

This package imports `mmlp` and is not part of what users install.
"""
