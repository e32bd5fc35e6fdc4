"""record(): let vLLM build a model without a GPU, and keep what it built."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.confirming.dry.result import DryRun, why_undecided
from planner.confirming.dry.run import DryOptions, DryStart
from planner.confirming.options import Listener
from planner.confirming.start import stage_lines
from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.models.recordings import Recording, config_key, write_recording
from planner.models.sources.finding import model_files
from planner.planning.inputs import Inputs

_ENOUGH_BYTES = 1 << 44
"""Memory of a GPU on which every model fits: nothing of it is ever touched."""
_QUICK = {"enforce_eager": True, "num_gpu_blocks_override": 1 << 12}
"""vLLM makes an object of each block: all of that memory's would take minutes."""


def record(
    model: str | os.PathLike[str],
    gpu: str | GPU = "H100",
    *,
    vllm_python: str | None = None,
    output: str | os.PathLike[str] | None = None,
    listener: Listener | None = None,
    **engine_args: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Path:
    """Let vLLM build a model on one and on two ranks, and write what it built.

    Later plans of the same config.json use the file, on any machine.

    Args:
        model: Hub id, catalogue id, or path of a folder or config.json.
        gpu: whose kernels vLLM chooses; its memory does not count.
        vllm_python: Python of vLLM's environment.
        output: the file; None: among the user's own recordings.
        listener: is called with stages and lines of the log.
        engine_args: such as trust_remote_code.

    Raises:
        PlannerError: if vLLM cannot be started or does not serve the model.
    """
    device = gpu if isinstance(gpu, GPU) else gpu_named(gpu)
    heard = stage_lines(sys.stdout) if listener is None else listener
    options = DryOptions(python=vllm_python)
    inputs = Inputs(
        model=os.fspath(model),
        gpu=_large(device),
        vllm_version="",
        engine_args={**_QUICK, **engine_args},
    )
    whole = DryStart(inputs, options, heard).execute()
    if not whole.tree:
        why = whole.refused or why_undecided(whole)
        raise PlannerError(f"vLLM did not load {inputs.model}: {why}")
    halved = DryStart(inputs.changed(tensor_parallel_size=2), options, heard).execute()
    made = Recording(
        model=os.fspath(model),
        vllm_version=whole.measurement.vllm_version or "",
        gpu=device.name,
        date=datetime.now(UTC).date().isoformat(),
        config_key=config_key(model_files(os.fspath(model)).config),
        whole=whole.tree,
        halved=halved.tree or None,
        runs=tuple(_figures(one) for one in (whole, halved) if one.ranks),
    )
    return write_recording(made, None if output is None else Path(output))


def _large(gpu: GPU) -> GPU:
    return replace(
        gpu,
        total_memory_bytes=_ENOUGH_BYTES,
        free_memory_bytes=None,
        nvml_memory_bytes=gpu.nvml_memory_bytes or gpu.total_memory_bytes,
        total_basis="given",
        source="as much as any model needs",
    )


def _figures(run: DryRun) -> dict[str, Any]:
    """Return what vLLM measured, and with which arguments."""
    return {
        "engine_args": dict(run.engine_args),
        "ranks": run.to_dict()["ranks"],
        "num_gpu_blocks": run.measurement.num_gpu_blocks,
    }
