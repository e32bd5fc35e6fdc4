"""check(): which of the starts that files describe would not start, and why."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.result import Outcome, Plan
from planner.reading.reading import Reading
from planner.reading.recognising import all_in, read
from planner.reading.starts.images import SLICE
from planner.reading.starts.sharing import Shared
from planner.user_files import read_text
from planner.values import frozen

_LISTS = (".jsonl", ".json")
"""Endings of files that may be a list of starts instead of one text."""
_OF_FOLDER = (*_LISTS, ".yaml", ".yml", ".sh", ".toml")
"""Endings of the files that are read of a folder: what generators write."""
_MOST_FILES = 1_000
_KEYS = ("command", "gpu", "vllm_version", "env", "id", "name")
"""What is read of an entry of such a list."""


class Answer(StrEnum):
    """What the planner says of one start."""

    STARTS = "starts"
    TOO_CLOSE = "too close to call"
    DOES_NOT_START = "does not start"
    NOT_CHECKED = "not checked"


_SIZES = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "cpu_offload_gb",
)
"""Arguments that say how much of the model each GPU holds."""
_ANSWERS = {
    Outcome.FITS: Answer.STARTS,
    Outcome.TOO_CLOSE: Answer.TOO_CLOSE,
    Outcome.DOES_NOT_FIT: Answer.DOES_NOT_START,
    Outcome.REFUSED: Answer.DOES_NOT_START,
}


@frozen
class Checked:
    """One start that a file describes, and whether vLLM would start."""

    path: str
    start: int
    """Which of the file's starts it is, from 1."""
    line: int | None = None
    """Where it stands in a list of one start a line, from 1."""
    shown: str = ""
    """What the file calls the start: a service's or a variant's name."""
    model: str | None = None
    gpu: str | None = None
    answer: Answer
    reason: str = ""
    """Why not, in vLLM's words where it has some; empty for a start."""
    plan: Plan | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Where it stands: the path, and the line or the start's number and name."""
        number = f":{self.line}" if self.line else f" #{self.start}"
        name = f" ({self.shown})" if self.shown else ""
        return f"{self.path}{number}{name}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "path": self.path,
            "line": self.line,
            "start": self.start,
            "name": self.shown,
            "model": self.model,
            "gpu": self.gpu,
            "gpus_total": None if self.plan is None else self.plan.gpus_total,
            "answer": str(self.answer),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        """Return where it stands, what it starts, and on what."""
        gpus = f"{self.plan.gpus_total} x " if self.plan is not None else ""
        where = f" on {gpus}{self.gpu}" if self.gpu else ""
        return f"{self.place}: {self.model or 'no model named'}{where}"


@frozen
class Checks:
    """Every start of the files that were checked, in their order."""

    rows: tuple[Checked, ...]
    without: tuple[str, ...] = ()
    """The files of a folder that hold no start, by their paths."""

    @property
    def failed(self) -> tuple[Checked, ...]:
        """Those that would not start on the hardware that is named."""
        return self.of(Answer.DOES_NOT_START)

    def of(self, answer: Answer) -> tuple[Checked, ...]:
        """Return those with this answer."""
        return tuple(row for row in self.rows if row.answer is answer)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by answer, and each start, as plain values."""
        counts = {str(answer): len(self.of(answer)) for answer in Answer}
        starts = [row.to_dict() for row in self.rows]
        return {"counts": counts, "starts": starts, "without": list(self.without)}

    def __str__(self) -> str:
        """Return what does not start first, each reason once, the counts last."""
        shown = (Answer.DOES_NOT_START, Answer.TOO_CLOSE, Answer.NOT_CHECKED)
        by_reason: dict[tuple[Answer, str], list[str]] = {}
        for row in (row for answer in shown for row in self.of(answer)):
            reason = row.reason.replace("\n", "\n    ")
            by_reason.setdefault((row.answer, reason), []).append(str(row))
        lines = [
            "\n  ".join([f"{answer}: {reason}", *places])
            for (answer, reason), places in by_reason.items()
        ]
        counts = ", ".join(
            f"{answer} {len(found)}" for answer in Answer if (found := self.of(answer))
        )
        if self.without:
            lines.append(f"without a start: {', '.join(self.without)}")
        return "\n".join([*lines, f"{len(self.rows)} checked: {counts or 'none'}"])


def check(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    gpu: str | GPU | None = None,
    vllm_version: str | None = None,
) -> Checks:
    """Plan every start that files describe, and say which would not start.

    A file is whatever `planner.read` reads (commands, manifests, compose files, vLLM's
    recipes, code), with all its starts; or a list of starts in JSON, or with one a
    line: objects with `command`, and `gpu`, `vllm_version`, `env` and `id` where they
    matter. Of a folder, every such file below it is read, and those without a start are
    named. Nothing of a file is ever run.

    Args:
        paths: files and folders.
        gpu: the GPU of starts that name none.
        vllm_version: the release of starts that name none.

    Raises:
        PlannerError: for a file that cannot be read, or holds no start; for a folder
            of too many files.
    """
    several = [paths] if isinstance(paths, str | PathLike) else list(paths)
    given = {"gpu": gpu, "vllm_version": vllm_version}
    rows: list[Checked] = []
    without: list[str] = []
    for path in several:
        folder = Path(path)
        if not folder.is_dir():
            rows += _of_file(fspath(path), given)
            continue
        for file in _files_of(folder):
            try:
                rows += _of_file(fspath(file), given)
            except PlannerError:
                without.append(fspath(file))
    return Checks(rows=tuple(rows), without=tuple(without))


def _files_of(folder: Path) -> Sequence[Path]:
    """Return the files below a folder that may hold a start, none behind a link.

    Raises:
        PlannerError: for none, or too many.
    """
    found = [
        Path(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.endswith(_OF_FOLDER) and not Path(place, name).is_symlink()
    ]
    if not found:
        raise PlannerError(
            f"{folder} cannot be checked: it is a folder without a file that could "
            f"describe a start ({', '.join(_OF_FOLDER)})."
        )
    if len(found) > _MOST_FILES:
        raise PlannerError(
            f"{folder} holds {len(found):,} files that could describe a start; "
            f"{_MOST_FILES:,} are read of a folder. Name those that matter."
        )
    return sorted(found)


def _of_file(path: str, given: Mapping[str, Any]) -> Iterator[Checked]:
    """Yield the starts of a file, which is read once: it may be a pipe.

    Raises:
        PlannerError: for a file that cannot be read, or holds no start.
    """
    text = read_text(Path(path))
    if Path(path).suffix in _LISTS:
        entries = list(_entries(path, text))
        if any("command" in entry for *_, entry in entries):
            yield from (_of_entry(path, *entry, given) for entry in entries)
            return
    yield from _of_text(text, given, path)


def checks_of(text: str, gpu: str | GPU | None = None) -> Checks:
    """Plan every start of a text, those on the same GPU one after the other.

    Raises:
        PlannerError: for a text that holds no start.
    """
    return Checks(rows=tuple(_of_text(text, {"gpu": gpu, "vllm_version": None}, "")))


def _of_text(text: str, given: Mapping[str, Any], path: str) -> Iterator[Checked]:
    shared = Shared()
    for start, found in enumerate(all_in(text), 1):
        place = {"path": path, "start": start, "shown": found.shown}
        yield _checked(found, given, shared, **place)


def _entries(
    path: str, text: str
) -> Iterator[tuple[int, int | None, Mapping[str, Any]]]:
    """Yield the number, the line and the entry of each start of a list."""
    by_line = path.endswith(".jsonl")
    pieces = text.splitlines() if by_line else [text]
    for line, piece in enumerate(pieces, 1):
        for number, entry in enumerate(_listed(piece), 1):
            yield line if by_line else number, line if by_line else None, entry


def _listed(text: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects that JSON lists; none where it is something else."""
    if not text.strip():
        return ()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ({},)
    listed = value if isinstance(value, list) else [value]
    return [entry if isinstance(entry, dict) else {} for entry in listed]


def _of_entry(
    path: str,
    number: int,
    line: int | None,
    entry: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Checked:
    told = {name: entry[name] for name in _KEYS if entry.get(name)}
    shown = str(told.get("id", told.get("name", "")))
    known = dict(given) | {n: told[n] for n in ("gpu", "vllm_version") if n in told}
    place: dict[str, Any] = {
        "path": path,
        "start": number,
        "line": line,
        "shown": shown,
    }
    command = told.get("command")
    if not isinstance(command, str):
        reason = 'Not a start: an object with "command" is expected here.'
        return Checked(**place, answer=Answer.NOT_CHECKED, reason=reason)
    try:
        found = read(f"{_exports(told.get('env'))}{command}")
    except PlannerError as error:
        return Checked(**place, answer=Answer.NOT_CHECKED, reason=str(error))
    return _checked(found, known, Shared(), **place)


def _exports(env: object) -> str:
    """Return variables as a shell writes them before a command."""
    if not isinstance(env, Mapping):
        return ""
    return "".join(
        f"export {name}={shlex.quote(str(value))}\n" for name, value in env.items()
    )


def _checked(
    found: Reading,
    given: Mapping[str, Any],
    shared: Shared,
    **place: Any,  # noqa: ANN401 - of the place
) -> Checked:
    device = found.gpu or given["gpu"]
    told: dict[str, Any] = {
        "model": found.model,
        "gpu": device.name if isinstance(device, GPU) else device,
    }
    version = found.vllm_version or given["vllm_version"]
    others = ""
    try:
        if device is not None:
            card = device if isinstance(device, GPU) else GPU.named(device)
            device, others = shared.left(found, card)
        plan = found.plan(device, vllm_version=version)
    except PlannerError as error:
        return Checked(**place, **told, answer=Answer.NOT_CHECKED, reason=str(error))
    shared.take(found, plan)
    answer = _ANSWERS[plan.outcome]
    if undecided := _undecided(found, plan):
        reason = " ".join(undecided)
        return Checked(**place, **told, answer=Answer.NOT_CHECKED, reason=reason)
    reason = "" if answer is Answer.STARTS else f"{_reason(plan)} {others}".rstrip()
    if found.gpus is not None and plan.gpus_total > found.gpus:
        answer = Answer.DOES_NOT_START
        reason = (
            f"vLLM needs {plan.gpus_total} GPUs (tensor x pipeline x data parallel); "
            f"the text grants {found.gpus}."
        )
    return Checked(**place, **told, answer=answer, reason=reason, plan=plan)


def _undecided(found: Reading, plan: Plan) -> list[str]:
    """Return what the text leaves open and decides what each GPU has, or holds.

    What starts on the fewest GPUs starts on more, too.
    """
    sizes = tuple(f"--{one.replace('_', '-')} is " for one in _SIZES)
    starts = plan.outcome is Outcome.FITS
    return [
        said
        for said in found.open
        if (said.startswith(sizes) and not starts)
        or (SLICE in said and not plan.gpu.mig_profile)
    ]


def _reason(plan: Plan) -> str:
    if plan.error is not None:
        return plan.error.message
    return "The KV cache lies within the planner's range of one request's need."
