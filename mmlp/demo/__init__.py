"""The tour that `mmlp demo` takes: three small runs without any data, and a page to open."""
