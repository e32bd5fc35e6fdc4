"""Kernels that a first start tunes in its profile run, whether it compiles or not.

Triton keeps what it found on disk, so that later starts with the same cache do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.releases.change import Change
from planner.memory.account import NOTHING, Sized
from planner.memory.lines.persistent import workspace_after
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.families.mamba_mixers import MixerProjection
from planner.units import MIB, format_size

_FLUSHED_BYTES = 256 * MIB
"""Triton's benchmark clears the L2 cache with a buffer of this size on any GPU.

Source: Triton 3.8 (vLLM 0.33.0) `backends/nvidia/driver.py`
get_empty_cache_for_benchmark.
"""
_TUNES_MAMBA = Change(
    since=(0, 31),
    what=(
        "The profile run tunes Mamba 2's kernels, and the result is kept on disk. "
        "Releases before 0.31.0 were not read."
    ),
    source=(
        "vLLM 0.31.0 and 0.33.0 `layers/mamba/mamba_mixer2.py` _warmup_ssd_kernels, "
        "`env_override.py` (TRITON_CACHE_AUTOTUNING)"
    ),
)


@once_for_all_lengths
def tuning(run: ProfileRun) -> Sized:
    """Return the peak while Mamba 2's kernels are tuned, in the first such layer.

    The benchmark's buffer lies beside the residual, the layer's input, what it
    projects and its output. The inputs of the benchmark, some MiB, are left out.

    Source: a traced first start of Nemotron Cascade 2 without a GPU.
    """
    first = min(_mixers(run), key=lambda one: one[0], default=None)
    if first is None or not run.release.has(_TUNES_MAMBA):
        return NOTHING
    return _of(run, *first)


def _mixers(run: ProfileRun) -> Iterator[tuple[int, MixerProjection]]:
    """Yield each kind's mixer with the first of its layers."""
    for at, kind in enumerate(run.model.layer_kinds):
        for module in kind.modules:
            if isinstance(module, MixerProjection) and module.has_gate_and_heads:
                yield run.model.layers.index(at), module


def _of(run: ProfileRun, layer: int, mixer: MixerProjection) -> Sized:
    projected = sum(mixer.as_linear(run.layout).output_sizes)
    width = (projected + mixer.state.intermediate_size) // (
        run.layout.tensor_parallel_size
    )
    values = 2 * run.model.hidden_size + width
    held = run.max_num_batched_tokens * values * run.element_size
    later = workspace_after(run, layer)
    less = f" - a later workspace of {format_size(later)}" if later else ""
    return Sized(
        size_bytes=max(0, held + _FLUSHED_BYTES - later),
        why=(
            f"tuning Mamba 2's kernels: a benchmark's buffer "
            f"{format_size(_FLUSHED_BYTES)} + states and projections "
            f"{format_size(held)}{less}"
        ),
    )
