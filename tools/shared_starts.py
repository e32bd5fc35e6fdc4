"""Starts that people shared (`planner calibration share`), as records of the corpus."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from planner.confirming.calibration_sharing import files_in, read_shared
from planner.errors import PlannerError
from planner.units import GIB
from tools import configs


def shared_records(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yield a record for each file of a folder; what is none is named and left out."""
    if not any(folder.glob("*.json")):
        return
    known = {row["dir"] for row in configs.index()}
    for path in files_in(folder):
        try:
            read_shared(path)
        except PlannerError as error:
            sys.stderr.write(f"left out: {error}\n")
            continue
        values = json.loads(path.read_text(encoding="utf-8"))
        name = values["model"].replace("/", "--")
        if name not in known:
            sys.stderr.write(f"left out: {path} is of a model without a config here\n")
            continue
        yield _record(path.stem, name, values)


def _record(name: str, config: str, values: Mapping[str, Any]) -> dict[str, Any]:
    gpu = values["gpu"]
    rank = min(
        values["ranks"], key=lambda one: one["figures"]["available_kv_cache_bytes"]
    )
    return {
        "id": f"shared-{name}",
        "source": f"shared {values['month']}",
        "config": config,
        "model_certain": True,
        "scored": True,
        "gpu": gpu["name"],
        "total_gpu_gib": gpu["total_memory_bytes"] / GIB,
        "vllm_version": values["vllm_version"],
        "entrypoint": values["entrypoint"],
        "args": values["args"],
        "measured": dict(_measured(rank, values)),
    }


def _measured(
    rank: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the figures as vLLM logs them, in GiB.

    From 0.27 on the logged peak holds the graphs' estimate as well.
    """
    figures = rank["figures"]
    peak = figures.get("peak_activation_bytes")
    if peak is not None and figures.get("consumed_bytes") is not None:
        peak += rank["cudagraph_estimate_bytes"] or 0
    sizes = {
        "available_kv_gib": figures["available_kv_cache_bytes"],
        "weights_gib": figures.get("weights_bytes"),
        "activation_gib": peak,
        "non_torch_gib": figures.get("non_torch_bytes"),
        "cudagraph_gib": values["captured_graph_bytes"],
    }
    yield "started", True
    yield "available_kv_pp_rank", rank["pp_rank"]
    yield from ((name, size / GIB) for name, size in sizes.items() if size is not None)
