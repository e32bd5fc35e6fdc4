"""Runs lessons as a learner does, each once for all tests: offline, with own data."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from planner.confirming.installation import PYTHON_VARIABLE
from tools import notebooks
from tools.notebooks import Edition

LESSON_SECONDS = 600
"""What hangs is given up after that; a lesson takes seconds."""
OFFLINE = Path(__file__).parent / "offline"
LESSONS = [one for one in notebooks.editions() if one.left_out]
LEARNERS = [one for one in LESSONS if not one.is_solution]
SOLVED = [one for one in LESSONS if one.is_solution]
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A notebook with its outputs."""

    notebook: Any
    noted: list[str]
    """"watched" for each process that had no network, and whom it asked."""

    def shown(self, words: str) -> list[str]:
        """Return what the cells show whose code holds `words`."""
        return [
            "".join(output["data"]["text/plain"] for output in cell.outputs)
            for cell in self.notebook.cells
            if cell.cell_type == "code" and words in cell.source
        ]


@contextmanager
def offline() -> Iterator[tuple[dict[str, str], Path]]:
    """Yield an environment without network or past, and the notes of who was asked."""
    with tempfile.TemporaryDirectory(prefix="planner-lesson-") as folder:
        asked = Path(folder) / "asked"
        asked.touch()
        paths = [str(OFFLINE), *filter(None, [os.environ.get("PYTHONPATH")])]
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.lower() not in (*_PROXIES, PYTHON_VARIABLE.lower())
        }
        yield (
            kept
            | {
                "PYTHONPATH": os.pathsep.join(paths),
                "PLANNER_DATA_DIR": str(Path(folder) / "data"),
                "PLANNER_TESTS_ASKED": str(asked),
                "PLANNER_TESTS_FOLDER": folder,
            },
            asked,
        )


def run(notebook: Any) -> Ran:
    """Run all cells in a fresh kernel; a cell that fails, fails here."""

    async def from_top_to_bottom(env: dict[str, str]) -> None:
        client = NotebookClient(
            notebook,
            timeout=LESSON_SECONDS,
            kernel_name="python3",
            # What a lesson writes beside itself is gone with its folder.
            resources={"metadata": {"path": env["PLANNER_TESTS_FOLDER"]}},
        )
        await asyncio.wait_for(client.async_execute(env=env), LESSON_SECONDS)

    with offline() as (env, asked), ThreadPoolExecutor(1) as apart:
        # Apart: while a browser is driven, this thread has an event loop that runs.
        apart.submit(asyncio.run, from_top_to_bottom(env)).result()
        return Ran(notebook=notebook, noted=asked.read_text("utf-8").splitlines())


@cache
def ran(edition: Edition) -> Ran:
    """Run a lesson as it is committed, once."""
    return run(nbformat.read(edition.path, as_version=4))


def ran_all(editions: Iterable[Edition]) -> list[Ran]:
    """Run lessons two at a time."""
    with ThreadPoolExecutor(2) as together:
        return list(together.map(ran, editions))
