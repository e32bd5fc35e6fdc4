"""A start on film: the memory of one GPU while vLLM starts, and the lines of its log.

A dry run's film has every allocation of PyTorch and of the false GPU, in their order;
its seconds are those of a machine without a GPU. A recorded one has what the driver
(NVML) said while vLLM started on a GPU.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from planner.confirming.measurement import Measurement, WorkerFigures
from planner.data import DATA
from planner.errors import PlannerError
from planner.user_files import read_text
from planner.values import frozen

FILMS = DATA / "films"
DRY, RECORDED = "dry run", "NVML"
LONGEST_LINE = 300
_FORMAT = 1
_FACTS = ("model", "gpu", "vllm_version", "engine_args", "source", "total_bytes")
_MEASURED = (
    *("requested_memory", "weights", "consumed"),
    *("peak_activation", "cudagraph_estimate", "available_kv_cache", "kv_cache"),
)
"""Of a worker's figures."""
_SECRET = "hf_token"
_BUCKETS = 24
"""Of a stage: of each, the lowest and the highest frames are kept."""
_STEP = 0.01
"""Of the GPU's memory: a change of at least this is kept with both its sides."""


class FilmStage(StrEnum):
    """What vLLM does while it starts, in its order."""

    STARTING = "starting"
    LOADING = "loading weights"
    REPACKING = "repacking"
    """Weights are brought into the form of their kernels."""
    BUFFERS = "allocating buffers"
    """What stays beside the weights, such as the inputs of a step."""
    PROFILING = "profiling"
    """One step of the largest size."""
    TRIAL = "measuring graphs"
    """Some graphs are captured to estimate all, and dropped."""
    KV_CACHE = "KV cache"
    CAPTURING = "capturing graphs"
    READY = "ready"

    @property
    def position(self) -> int:
        """Place among the stages, from 0."""
        return list(FilmStage).index(self)


class Use(StrEnum):
    """What memory is used for, as it is piled up: the first is at the bottom."""

    OUTSIDE = "outside"
    """The CUDA context and other programs: no part of vLLM's budget."""
    WEIGHTS = "weights"
    NON_TORCH = "non-torch"
    BUFFERS = "persistent buffers"
    KV_CACHE = "KV cache"
    GRAPHS = "CUDA graphs"
    TEMPORARY = "activations and copies"
    """What is freed again: activations of the profile run, copies of weights."""
    EMPTY = "empty, held by PyTorch"
    """Segments that PyTorch has from the device, and no tensor uses."""


_PLACES = {use: at for at, use in enumerate(Use)}
_NO_TENSORS = (Use.OUTSIDE, Use.NON_TORCH, Use.EMPTY)


@frozen
class Frame:
    """The memory of the GPU at one moment."""

    seconds: float
    """Since the start began."""
    stage: FilmStage
    used: tuple[int, ...]
    """Bytes by use, in the order of `Use`."""

    def bytes_of(self, use: Use) -> int:
        """Return the bytes of one use."""
        return self.used[_PLACES[use]]

    @property
    def device_bytes(self) -> int:
        """All that is taken from the device, as nvidia-smi shows it."""
        return sum(self.used)

    @property
    def tensor_bytes(self) -> int:
        """What tensors use, as PyTorch counts it."""
        return self.device_bytes - sum(map(self.bytes_of, _NO_TENSORS))


@frozen
class Film:
    """The frames of one start, on its first rank.

    Raises:
        PlannerError: for one without frames.
    """

    model: str
    gpu: str
    vllm_version: str
    engine_args: Mapping[str, Any]
    source: str
    """Whose figures: "dry run", or "NVML"."""
    total_bytes: int
    """Of the GPU."""
    measured: Mapping[str, int]
    """What vLLM itself measured, in bytes, such as requested_memory and weights; what
    it does not say is left out."""
    frames: tuple[Frame, ...]
    lines: tuple[tuple[int, str], ...]
    """Lines of the log that show a stage or a size, each with the number of the frame
    that it comes after."""

    def __post_init__(self) -> None:
        if not self.frames:
            raise PlannerError("A film has at least one frame.")

    @property
    def is_dry(self) -> bool:
        """Whether no GPU was there, so that its seconds say nothing of one."""
        return self.source == DRY

    @property
    def peak(self) -> tuple[Frame, Frame] | None:
        """The highest frame of the profile run and the last; None without a run.

        The tensors of the one minus those of the other are what vLLM keeps free.
        """
        highest = self.highest(FilmStage.PROFILING)
        last = self.last(FilmStage.PROFILING)
        return (highest, last) if highest and last else None

    def last(self, stage: FilmStage) -> Frame | None:
        """Return the last frame of a stage; None where the start had none."""
        return next((one for one in reversed(self.frames) if one.stage is stage), None)

    def highest(self, stage: FilmStage) -> Frame | None:
        """Return the frame of a stage in which tensors use the most; None without."""
        found = (one for one in self.frames if one.stage is stage)
        return max(found, key=lambda one: one.tensor_bytes, default=None)

    def thinned(self) -> Film:
        """Return it with fewer frames: every step, extreme and line's frame is kept."""
        kept = sorted(
            _kept(self.frames, self.total_bytes) | {at for at, _ in self.lines}
        )
        places = {before: now for now, before in enumerate(kept)}
        return replace(
            self,
            frames=tuple(self.frames[at] for at in kept),
            lines=tuple((places[at], text) for at, text in self.lines),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values: for each use, what each frame adds to the last."""
        columns = zip(*(one.used for one in self.frames), strict=True)
        return {
            "film": _FORMAT,
            **{name: getattr(self, name) for name in (*_FACTS, "measured")},
            "seconds": [one.seconds for one in self.frames],
            "stages": [
                sum(one.stage is stage for one in self.frames) for stage in FilmStage
            ],
            "used": [
                [column[0], *(new - old for old, new in pairwise(column))]
                for column in columns
            ],
            "lines": self.lines,
        }

    def write(self, path: Path) -> None:
        """Write it into a file, as compact JSON."""
        text = json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def placed(
    frames: Sequence[Frame], lines: Iterable[tuple[float, str]]
) -> tuple[tuple[int, str], ...]:
    """Return lines of a log with the frames that they come after, for their seconds."""
    times = [one.seconds for one in frames]
    return tuple(
        (max(bisect_right(times, seconds) - 1, 0), text) for seconds, text in lines
    )


def facts_of(
    measured: Measurement,
    worker: WorkerFigures | None,
    engine_args: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a film's facts: what vLLM measured, and the arguments but a secret."""
    sizes = {name: getattr(worker, f"{name}_bytes", None) for name in _MEASURED}
    return {
        "engine_args": {n: one for n, one in engine_args.items() if n != _SECRET},
        "vllm_version": measured.vllm_version or "",
        "measured": {name: size for name, size in sizes.items() if size is not None},
    }


def read_film(path: Path) -> Film:
    """Read a film that `Film.write` wrote.

    Raises:
        PlannerError: where the file is missing, or no film.
    """
    text = read_text(path, what="The film ")
    try:
        return _film(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise PlannerError(
            f"{path} is not a film. Make one with: planner dry-run MODEL --film "
            f"{path.name}"
        ) from error


def _film(told: Mapping[str, Any]) -> Film:
    if told["film"] != _FORMAT:
        raise ValueError(told["film"])
    counts = zip(FilmStage, told["stages"], strict=True)
    stages = [stage for stage, count in counts for _frame in range(count)]
    rows = zip(*(accumulate(map(int, one)) for one in told["used"]), strict=True)
    frames = zip(told["seconds"], stages, rows, strict=True)
    return Film(
        **{name: told[name] for name in (*_FACTS, "measured")},
        frames=tuple(
            Frame(seconds=float(seconds), stage=stage, used=used)
            for seconds, stage, used in frames
        ),
        lines=tuple((int(at), str(text)) for at, text in told["lines"]),
    )


def _kept(frames: Sequence[Frame], total: int) -> set[int]:
    """Return the places of the frames that a thinned film keeps."""
    device = [one.device_bytes for one in frames]
    tensors = [one.tensor_bytes for one in frames]
    kept = {0, len(frames) - 1}
    for at, (before, after) in enumerate(pairwise(frames)):
        is_step = abs(device[at + 1] - device[at]) >= _STEP * total
        if is_step or before.stage is not after.stage:
            kept |= {at, at + 1}
    for stage in FilmStage:
        places = [at for at, one in enumerate(frames) if one.stage is stage]
        size = -(-len(places) // _BUCKETS) or 1
        for begin in range(0, len(places), size):
            bucket = places[begin : begin + size]
            for sizes in (device, tensors):
                kept |= {min(bucket, key=sizes.__getitem__)}
                kept |= {max(bucket, key=sizes.__getitem__)}
    return kept
