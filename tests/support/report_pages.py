"""Made-up records for the tests of the page of results."""

import base64
import json
from html.parser import HTMLParser
from pathlib import Path

PNG = base64.b64decode(  # one grey pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGOoBwAAgwCBd3zUrwAAAABJRU5ErkJggg=="
)

TABLE = {
    "title": "Error for each loss",
    "note": "Mean over 1000 test samples.",
    "columns": ["trained with", "quadratic", "Stein", "test samples"],
    "rows": [
        {"group": "d = 10, n = 20"},
        {
            "name": "von Neumann",
            "cells": [
                {"mean": 1.0712e-2, "error": 3.1e-4, "paper": 5.8e-6, "best": True},
                {"mean": 5.64, "error": 0.128, "paper": 17.75},
                1000,
            ],
            "emphasis": True,
        },
        {
            "name": "constant",
            "cells": [
                {"mean": 0.37, "error": 0.012, "paper": "no value"},
                {"mean": 40.12},
                1000,
            ],
        },
        {"name": "noise floor", "cells": [4.6e-4, None, "all"]},
    ],
}

RECORD = {
    "command": "python -m reproduction example1 --seeds 5",
    "seconds": 200.0,
    "date": "2026-01-02",
    "device": "CPU (x86_64, 2 cores), float32",
    "versions": {"jax": "0.9.2", "python": "3.11.7"},
    "settings": {"seeds": 5, "dims": [10, 20]},
    "result": {
        "title": "the losses compared",
        "about": "The matrix MLP trained under each loss.",
        "claims": [
            {
                "claim": "The von Neumann loss is best on all measures.",
                "verdict": "holds",
                "evidence": "In 12 of 12 cells.",
            },
            {
                "claim": "Deep is better than shallow.",
                "verdict": "does not hold",
                "evidence": "Level within one error.",
            },
            {
                "claim": "The MLP is far behind.",
                "verdict": "depends on the loss of the plain MLP",
            },
        ],
        "tables": [TABLE],
        "figures": [
            {"file": "x.png", "caption": "Targets and predictions.", "alt": "heat maps"}
        ],
        "notes": ["Test samples are drawn anew."],
    },
}


def write(folder: Path, name: str, record: dict) -> None:
    """A record as `_run.main` writes it, with the figure that RECORD names."""
    (folder / f"{name}.json").write_text(json.dumps({"experiment": name, **record}))
    (folder / "x.png").write_bytes(PNG)


VOID = {"meta", "link", "br", "img"}  # elements without an end tag


class Reader(HTMLParser):
    """The page as a browser would first see it; every tag is closed, once and in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.seen, self.ids, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        self.text.append(data.strip())

    def tags(self, name):
        return [attributes for tag, attributes in self.seen if tag == name]
