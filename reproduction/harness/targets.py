"""The experiments by name, in the order of running and of their sections on the page.

Each is a module of `reproduction`, with dashes written as underscores. Nothing is
imported here.
"""

TARGETS = (
    "example1",
    "example1-mlp",
    "example2",
    "frey",
    "frey-pixels",
    "collapse",
    "density",
    "radius",
    "shares",
)
