"""KV cache specs of layers with states of a fixed size, and the block size of hybrids.

In a hybrid, layers with attention and layers with states share their blocks: the page
of a block of attention has to be as large as the states of a layer.

Source: vLLM 0.33.0 `layers/mamba/abstract.py` MambaBase; `models/config.py`
MambaModelConfig; `platforms/interface.py` _align_hybrid_block_size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from planner.engine.dtypes import element_bytes
from planner.engine.generations import (
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.backend import AttentionBackend, CacheFamily, CachePlace
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.cpu_attention import FIRST_STATE_BLOCK_SIZE
from planner.memory.kv_cache.kv_spec import KVCacheSpec, MultipleOf
from planner.memory.kv_cache.specs_of_states import ALIGN, NONE, MambaSpec
from planner.models.states import (
    GatedDeltaNetState,
    KimiDeltaAttentionState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    RecordedState,
    Role,
    ShortConvolutionState,
    StateLayer,
)

_CHECKPOINT_TOKENS = 64
_CHECKPOINT_HEAD = 128
STATE_LAYERS = (
    Mamba1State,
    Mamba2State,
    GatedDeltaNetState,
    KimiDeltaAttentionState,
    ShortConvolutionState,
    LinearAttentionState,
    RecordedState,
)
_ALIGNS_PREFILL_CHECKPOINTS = Change(
    since=(0, 33),
    what="Blocks of hybrids are multiples of the tokens at which prefill saves states.",
    source="vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size",
)
_SAVES_KDA_STATES = Change(
    since=(0, 29),
    what="Kimi's prefill saves intermediate states, in an additional block.",
    source="vLLM 0.29.0 `models/kimi_k3/nvidia/kda.py`",
)
_SAVES_MAMBA2_STATES = Change(
    since=(0, 32),
    what="Mamba2's prefill saves intermediate states, in an additional block.",
    source="vLLM 0.32.0 `layers/mamba/mamba_mixer2.py`",
)
_SIZES_GDN_RECURRENCE = Change(
    since=(0, 17),
    what="The recurrence of gated delta nets has a dtype of its own.",
    source="vLLM 0.17.0 `layers/mamba/mamba_utils.py` gated_delta_net_state_dtype",
)
_READS_RECURRENT_DTYPE = Change(
    since=(0, 13),
    what="The dtype of a Mamba2 recurrence is the one that the model requests.",
    source="vLLM 0.13.0 `models/config.py` NemotronHForCausalLMConfig",
)
_FLOAT32_RECURRENCE = Change(
    since=(0, 20),
    what="Models that request a dtype of the recurrence request float32 by default.",
    source="vLLM 0.20.0 `models/config.py` NemotronHForCausalLMConfig",
)
_SPECULATES_WITH_GDN = Change(
    since=(0, 15),
    what=(
        "Speculative decoding keeps states of gated delta nets as from 0.15.0, the "
        "oldest release whose way is modelled."
    ),
)
_SPECULATES_WITH_OTHERS = Change(
    since=(0, 30),
    what=(
        "Speculative decoding keeps states of Mamba2 and of Kimi's delta attention as "
        "from 0.30.0, the oldest release whose way is modelled."
    ),
)
_SPECULATES: Mapping[type[StateLayer], Change] = {
    GatedDeltaNetState: _SPECULATES_WITH_GDN,
    Mamba2State: _SPECULATES_WITH_OTHERS,
    KimiDeltaAttentionState: _SPECULATES_WITH_OTHERS,
}
_WIDE_HEAD = 256
_ALIGNS_WIDE_HEADS = Change(
    since=(0, 11, 1),
    until=(0, 18),
    what="Blocks of hybrids with heads of 256 are multiples of 32 tokens on Blackwell.",
    source="vLLM 0.11.1 to 0.17.1 `models/config.py` HybridAttentionMambaModelConfig",
)
_ALIGNS_LATENT_TO_128 = Change(
    since=(0, 27),
    what=(
        "Blocks of hybrids with latent attention are multiples of 128 tokens. Before, "
        "of 64."
    ),
    source="vLLM 0.27.0 `platforms/interface.py` _align_hybrid_block_size",
)
_ALIGNS_BY_BACKEND = Change(
    since=(0, 20),
    what="Blocks of hybrids are a multiple of their backend's blocks.",
    source="vLLM 0.20.0 `platforms/interface.py` _align_hybrid_block_size",
)


def cache_mode(context: CacheContext) -> str:
    """Return mamba_cache_mode, which follows prefix caching."""
    return ALIGN if context.has_prefix_caching else NONE


def first_mamba_block_size(context: CacheContext, default: int) -> int:
    """Return mamba_block_size before it is aligned to attention's.

    `default` is the block size where the user sets none.
    """
    if context.requested_mamba_block_size is not None:
        return context.requested_mamba_block_size
    if context.has_prefix_caching:
        return context.requested_block_size or default
    return context.max_model_len


def state_bytes(layer: StateLayer, context: CacheContext) -> tuple[int, ...]:
    """Return the bytes of each state of a layer on a rank.

    Raises:
        Refused: in vLLM's words, for ranks or a dtype that the layer does not support.

    Source: vLLM 0.33.0 `layers/mamba/mamba_utils.py` MambaStateDtypeCalculator.
    """
    _check_speculation(layer, context)
    kept = context.mamba_cache_dtype
    dtype = context.dtype if kept == "auto" else kept
    recurrent = _recurrent_dtype(layer, context)
    if isinstance(layer, KimiDeltaAttentionState) and recurrent == "float16":
        raise Refused(
            "KDA recurrent state supports only auto, float32, and bfloat16; "
            f"got {recurrent}"
        )
    by_role = {
        Role.CONVOLUTION: dtype,
        Role.RECURRENCE: dtype if recurrent == "auto" else recurrent,
    }
    return tuple(
        state.elements * element_bytes(by_role[state.role])
        for state in layer.states(
            context.layout.tensor_parallel_size, context.num_speculative_tokens
        )
    )


def _check_speculation(layer: StateLayer, context: CacheContext) -> None:
    """Leave out states whose role in speculative decoding is not modelled.

    Raises:
        UnknownArchitecture: naming the argument.
    """
    if not context.num_speculative_tokens:
        return
    change = _SPECULATES.get(type(layer))
    if change is None or not context.layout.release.has(change):
        raise UnknownArchitecture(
            f"speculative_config with a model of {type(layer).__name__} is not "
            "modelled yet for this release. Leave it out."
        )


def _recurrent_dtype(layer: StateLayer, context: CacheContext) -> str:
    """Return the dtype of a layer's recurrence; auto means that of its other states."""
    release, requested = context.layout.release, context.mamba_ssm_cache_dtype
    is_delta = isinstance(layer, GatedDeltaNetState)
    if is_delta and not release.has(_SIZES_GDN_RECURRENCE):
        return "auto"
    if requested != "auto":
        return requested
    if isinstance(layer, Mamba2State) and layer.recurrent_dtype is not None:
        if not release.has(_READS_RECURRENT_DTYPE):
            return "auto"
        if layer.has_default_dtype:
            return "float32" if release.has(_FLOAT32_RECURRENCE) else "float16"
    return layer.recurrent_dtype or "auto"


def checkpoint_alignment(
    layers: Sequence[StateLayer], context: CacheContext
) -> int | None:
    """Return the tokens at whose multiples prefill saves states; None: it does not.

    Every layer has to support it.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py`
    _resolve_gdn_prefill_backend; `layers/mamba/abstract.py`
    get_mamba_prefill_checkpoint_alignment.
    """
    aligns = context.layout.release.has(_ALIGNS_PREFILL_CHECKPOINTS)
    if not (layers and aligns) or cache_mode(context) != ALIGN:
        return None
    exports = all(
        isinstance(layer, GatedDeltaNetState)
        and layer.exports_checkpoints
        and _has_flashinfer_prefill(layer, context)
        for layer in layers
    )
    return _CHECKPOINT_TOKENS if exports else None


def _saves_states(layer: StateLayer, context: CacheContext, sizes: BlockSizes) -> bool:
    """Whether prefill saves intermediate states, which takes an additional block.

    Source: vLLM 0.33.0 `layers/mamba/mamba_mixer2.py` and
    `layers/mamba/gdn/qwen_gdn_linear_attn.py` get_kv_cache_spec;
    `models/kimi_k3/nvidia/kda.py` resolve_kda_prefill_backend.
    """
    release = context.layout.release
    if isinstance(layer, KimiDeltaAttentionState):
        return release.has(_SAVES_KDA_STATES) and _has_flash_kda(layer, context)
    if isinstance(layer, GatedDeltaNetState):
        return sizes.has_prefill_checkpoints
    return isinstance(layer, Mamba2State) and release.has(_SAVES_MAMBA2_STATES)


def _has_flash_kda(layer: KimiDeltaAttentionState, context: CacheContext) -> bool:
    recurrent = context.mamba_ssm_cache_dtype
    return (
        layer.may_use_flash_kda
        and layer.head_dim == _CHECKPOINT_HEAD
        and context.dtype == "bfloat16"
        and recurrent in ("auto", "bfloat16", "float32")
        and context.major
        in (HOPPER.major, DATACENTER_BLACKWELL.major, WORKSTATION_BLACKWELL.major)
    )


def _has_flashinfer_prefill(layer: GatedDeltaNetState, context: CacheContext) -> bool:
    if context.gdn_prefill_backend not in (None, "auto", "flashinfer"):
        return False
    if context.gpu.compute_capability == HOPPER:
        return True
    is_blackwell = context.major in (
        DATACENTER_BLACKWELL.major,
        WORKSTATION_BLACKWELL.major,
    )
    return is_blackwell and layer.head_k_dim == _CHECKPOINT_HEAD


def state_spec(layer: StateLayer, place: CachePlace) -> KVCacheSpec:
    """Return the spec of a layer with states."""
    assert place.sizes.mamba_block_size is not None
    return MambaSpec(
        block_size=place.sizes.mamba_block_size,
        mamba_type=type(layer).__name__,
        state_bytes=state_bytes(layer, place.context),
        mamba_cache_mode=cache_mode(place.context),
        num_speculative_blocks=place.context.num_speculative_tokens,
        num_prefill_checkpoint_blocks=int(
            _saves_states(layer, place.context, place.sizes)
        ),
        page_size_padded_bytes=place.sizes.mamba_page_size_padded_bytes,
    )


def no_backend(_layer: StateLayer, _context: CacheContext) -> None:
    """Return None: kernels of states do not affect the block size."""
    return


def aligned(
    sizes: BlockSizes,
    layers: Sequence[StateLayer],
    backends: Sequence[AttentionBackend],
    token_bytes: int,
    context: CacheContext,
) -> BlockSizes:
    """Return sizes with which a page of attention is as large as a layer's states.

    Args:
        sizes: as the attention backends prefer or the user requested.
        layers: those with states.
        backends: of attention; without any, nothing is aligned.
        token_bytes: page of one attention layer for one token.
        context: the deployment.

    Source: vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size.
    """
    alignment = checkpoint_alignment(layers, context)
    # The CPU build sets the block size after that of states.
    first = FIRST_STATE_BLOCK_SIZE if context.gpu.is_cpu else sizes.block_size
    sizes = replace(
        sizes,
        mamba_block_size=first_mamba_block_size(context, first),
        has_prefill_checkpoints=alignment is not None,
    )
    page_bytes = max((sum(state_bytes(la, context)) for la in layers), default=0)
    if not backends or not page_bytes:
        return sizes
    if context.layout.release.has(_ALIGNS_BY_BACKEND):
        step = _block_alignment(sizes.block_size, backends, context, alignment)
        block_size = step * -(-page_bytes // (step * token_bytes))
        step = lcm(*_smallest_blocks(backends, context))
        block_size = step * -(-block_size // step)
    else:
        step = _fixed_alignment(backends[0], context)
        block_size = step * -(-page_bytes // (step * token_bytes))
    block_size = max(sizes.block_size, block_size)
    attention_bytes = block_size * token_bytes
    is_aligned = cache_mode(context) == ALIGN
    return replace(
        sizes,
        block_size=block_size,
        mamba_block_size=block_size if is_aligned else sizes.mamba_block_size,
        mamba_page_size_padded_bytes=(
            None if attention_bytes == page_bytes else attention_bytes
        ),
    )


def _block_alignment(
    block_size: int,
    backends: Sequence[AttentionBackend],
    context: CacheContext,
    checkpoints: int | None,
) -> int:
    """Return the tokens of which attention's block size is a multiple."""
    step = max(_smallest_blocks(backends[:1], context)[0], block_size)
    if backends[0].is_mla:
        step = max(step, _latent_hybrid_step(context.layout.release))
    return lcm(step, checkpoints or 1)


def _fixed_alignment(backend: AttentionBackend, context: CacheContext) -> int:
    """Return the same for releases in which it does not depend on the backend's blocks.

    Source: vLLM 0.11.0, 0.17.1 and 0.19.1 `models/config.py`
    HybridAttentionMambaModelConfig.
    """
    release = context.layout.release
    if backend.is_mla:
        return _latent_hybrid_step(release)
    is_wide = (
        context.head_size == _WIDE_HEAD and context.major == DATACENTER_BLACKWELL.major
    )
    return 32 if is_wide and release.has(_ALIGNS_WIDE_HEADS) else 16


def _smallest_blocks(
    backends: Sequence[AttentionBackend], context: CacheContext
) -> list[int]:
    return [
        min(s.base if isinstance(s, MultipleOf) else s for s in found)
        for found in (b.kernel_block_sizes(context) for b in backends)
        if found
    ]


def _latent_hybrid_step(release: Release) -> int:
    """Return the tokens of which blocks of latent hybrids are a multiple."""
    return 128 if release.has(_ALIGNS_LATENT_TO_128) else 64


FAMILIES: dict[type, CacheFamily] = {
    kind: CacheFamily(backend=no_backend, spec=state_spec) for kind in STATE_LAYERS
}
