"""The paper's experiments by name, in the order of running and of their page.

Each is a module of `mmlp.experiments`, dashes written as underscores. Nothing is imported here.
"""

from typing import Literal, get_args

Target = Literal[
    "example1", "example1-mlp", "example2", "frey", "frey-pixels", "collapse", "density", "radius"
]
TARGETS: tuple[Target, ...] = get_args(Target)
