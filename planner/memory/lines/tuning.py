"""Kernels that a first start tunes in its profile run, whether it compiles or not.

Triton keeps what it found on disk, so that later starts with the same cache do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.generations import HOPPER
from planner.engine.releases.change import Change
from planner.memory.account import NOTHING, Sized
from planner.memory.lines.attention_pass import DELTA_NET_INPUT
from planner.memory.lines.persistent import workspace_after
from planner.memory.profile_run import ProfileRun, once_for_all_lengths
from planner.models.families.mamba_mixers import MixerProjection
from planner.models.layers import Module
from planner.units import MIB, format_size

_FLUSHED_BYTES = 256 * MIB
"""Triton's benchmark clears the L2 cache with a buffer of this size on any GPU.

Source: Triton 3.8 (vLLM 0.33.0) `backends/nvidia/driver.py`
get_empty_cache_for_benchmark.
"""
_TUNES_KERNELS = Change(
    since=(0, 31),
    what=(
        "The profile run tunes kernels of Mamba 2 and of gated delta networks, and the "
        "result is kept on disk. Releases before 0.31.0 were not read."
    ),
    source=(
        "vLLM 0.31.0 and 0.33.0 `layers/mamba/mamba_mixer2.py` _warmup_ssd_kernels, "
        "`layers/mamba/gdn/qwen_gdn_linear_attn.py` _warmup_prefill_kernels, "
        "`env_override.py` (TRITON_CACHE_AUTOTUNING)"
    ),
)


@once_for_all_lengths
def tuning(run: ProfileRun) -> Sized:
    """Return the peak while kernels are tuned, in the first layer that has such.

    The benchmark's buffer lies beside the states there, and what the layer projects.
    The inputs of the benchmark, some MiB, are left out. Delta networks were seen before
    Hopper alone, where FlashInfer may compute them.

    Source: traced first starts without a GPU of Nemotron Cascade 2, and of
    Qwen3.6-35B-A3B on eight A10.
    """
    first = min(_mixers(run), default=None)
    if first is None or not run.release.has(_TUNES_KERNELS):
        return NOTHING
    layer, values = first
    held = run.max_num_batched_tokens * values * run.element_size
    later = workspace_after(run, layer)
    less = f" - a later workspace of {format_size(later)}" if later else ""
    return Sized(
        size_bytes=max(0, held + _FLUSHED_BYTES - later),
        why=(
            f"tuning kernels: a benchmark's buffer {format_size(_FLUSHED_BYTES)} + "
            f"states and projections {format_size(held)}{less}"
        ),
    )


def _mixers(run: ProfileRun) -> Iterator[tuple[int, int]]:
    """Yield the first layer of each kind that tunes kernels, and its values a token."""
    for at, kind in enumerate(run.model.layer_kinds):
        for module in kind.modules:
            values = _values(run, module)
            if values:
                yield run.model.layers.index(at), values


def _values(run: ProfileRun, module: Module) -> int:
    hidden, ranks = run.model.hidden_size, run.layout.tensor_parallel_size
    if isinstance(module, MixerProjection) and module.has_gate_and_heads:
        projected = sum(module.as_linear(run.layout).output_sizes)
        return 2 * hidden + (projected + module.state.intermediate_size) // ranks
    is_early = run.layout.compute_capability < HOPPER
    if is_early and module.name.endswith(DELTA_NET_INPUT):
        return hidden + sum(getattr(module, "output_sizes", ())) // ranks
    return 0
