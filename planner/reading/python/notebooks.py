"""The cells of a notebook: its code in order, and the cells of other languages.

Outputs and the cells with words are left out.

Source: nbformat 5.10 (`cells`, `cell_type`, `source`);
IPython 9 cell magics (`%%bash`, `%%writefile`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node, documents
from planner.reading.passage import Passage, joined

_LIKE = re.compile(r"\s*\{")
_CELLS = re.compile(r'"cell_type"\s*:')
_MAGIC = re.compile(r"\s*%%(?P<name>\w+)[ \t]*(?P<rest>[^\n]*)\n")
_FILES = ("writefile", "file")
_OF_PYTHON = ("time", "timeit", "capture", "prun", "python3", "python", "py")


def is_notebook(text: str) -> bool:
    """Return whether a text is the file of a notebook.

    >>> is_notebook('{"cells": [{"cell_type": "code", "source": []}]}')
    True
    """
    return _LIKE.match(text) is not None and _CELLS.search(text) is not None


def cells_of(text: str) -> Iterator[tuple[Passage, str]]:
    """Yield what the cells of a notebook hold, with the language of each.

    All code comes first, as one document.
    """
    if not is_notebook(text):
        return
    try:
        (root,) = documents(Passage.whole(text))
    except (PlannerError, ValueError):
        return
    cells = root.items_of("cells")
    code, others = list[Passage](), list[tuple[Passage, str]]()
    for page in (_source(cell) for cell in cells if cell.word("cell_type") == "code"):
        magic = _MAGIC.match(page.text)
        if magic is None or magic["name"] in _OF_PYTHON:
            code.append(page)
        else:
            rest = page.part(magic.end(), len(page.text))
            is_file = magic["name"] in _FILES
            others.append((rest, magic["rest"] if is_file else magic["name"]))
    if code:
        yield joined(code), "python"
    yield from others


def _source(cell: Node) -> Passage:
    """Return the text of a cell, which ends in a line break of its own."""
    source = cell.get("source") or cell
    lines = source.items or ((source,) if source.kind == "scalar" else ())
    parts = [passage_of(line) for line in lines if line.text]
    page = joined(parts) if parts else cell.page.part(cell.start, cell.start)
    return page.ended("\n")
