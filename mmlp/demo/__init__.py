"""The tour of `mmlp demo`: three small runs without any data files, and one page."""
