"""What the headers of a Hub model said, remembered on disk by commit.

A commit never changes, so neither does this: the next plan asks the Hub for nothing
more than whether the commit is still the newest, and offline it asks nothing.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.module_names import can_pack, pack, unpack
from planner.sources.safetensors import Shapes, TensorFacts

_FORMAT = 1


def load(path: Path) -> TensorFacts | None:
    """Return what was remembered; None when nothing usable is there."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != _FORMAT:
            return None
        return TensorFacts.of(unpacked(content["tensors"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, tensors: TensorFacts) -> None:
    """Remember; a disk that cannot be written to is no reason to fail."""
    if not can_pack(tensors.shapes):
        return
    content = {"format": _FORMAT, "tensors": packed(tensors.shapes)}
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content, separators=(",", ":")), "utf-8")
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()


def packed(shapes: Shapes) -> list[list[Any]]:
    """Write tensors in few words: dtype, shape and the names that share them."""
    names: defaultdict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for name, kind in shapes.items():
        names[kind].append(name)
    return [[dtype, shape, pack(same)] for (dtype, shape), same in names.items()]


def unpacked(rows: list[list[Any]]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Read what `packed` wrote."""
    shapes = {}
    for dtype, shape, patterns in rows:
        kind = (str(dtype), tuple(int(size) for size in shape))
        shapes.update(dict.fromkeys(unpack(patterns), kind))
    return shapes
