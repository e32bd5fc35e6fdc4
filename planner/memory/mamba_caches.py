"""KV cache specs of layers that keep states of a fixed size.

Source: vLLM 0.33.0 `layers/mamba/abstract.py` MambaBase; `models/config.py`
MambaModelConfig.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.dtypes import element_bytes
from planner.errors import Refused, UnknownArchitecture
from planner.memory.backend import AttentionBackend
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.cache_family import CacheFamily
from planner.memory.kv_spec import KVCacheSpec
from planner.memory.mamba_spec import ALIGN, NONE, MambaSpec
from planner.parallel import DATACENTER_BLACKWELL, HOPPER, WORKSTATION_BLACKWELL
from planner.states import (
    GatedDeltaNetState,
    KimiDeltaAttentionState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
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
)


def cache_mode(context: CacheContext) -> str:
    """Return mamba_cache_mode, which follows prefix caching."""
    return ALIGN if context.has_prefix_caching else NONE


def first_mamba_block_size(context: CacheContext, default: int) -> int:
    """Return mamba_block_size before blocks of attention have a say.

    `default` is the size of blocks where the user gives none.
    """
    if context.asked_mamba_block_size is not None:
        return context.asked_mamba_block_size
    if context.has_prefix_caching:
        return context.asked_block_size or default
    return context.max_model_len


def state_bytes(layer: StateLayer, context: CacheContext) -> tuple[int, ...]:
    """Return the bytes of each state of a layer on a rank.

    Raises:
        Refused: in vLLM's words, for ranks or a dtype that the layer cannot have.

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
    """Leave out states whose part in speculative decoding is not known.

    Raises:
        UnknownArchitecture: naming the argument.
    """
    if not context.num_speculative_tokens:
        return
    since = {
        GatedDeltaNetState: (0, 15),
        Mamba2State: (0, 30),
        KimiDeltaAttentionState: (0, 30),
    }
    first = since.get(type(layer))
    if first is None or not context.layout.release.since(*first):
        raise UnknownArchitecture(
            f"speculative_config with a model of {type(layer).__name__} is not "
            "modelled yet for this release. Leave it out."
        )


def _recurrent_dtype(layer: StateLayer, context: CacheContext) -> str:
    """Return the dtype of a layer's recurrence; auto: that of its other states."""
    release, asked = context.layout.release, context.mamba_ssm_cache_dtype
    is_delta = isinstance(layer, GatedDeltaNetState)
    if is_delta and not release.sizes_gdn_recurrence:
        return "auto"
    if asked != "auto":
        return asked
    if isinstance(layer, Mamba2State) and layer.recurrent_dtype is not None:
        if not release.reads_recurrent_dtype:
            return "auto"
        if layer.has_default_dtype:
            return release.recurrent_dtype
    return layer.recurrent_dtype or "auto"


def checkpoint_alignment(
    layers: Sequence[StateLayer], context: CacheContext
) -> int | None:
    """Return the tokens on whose multiples a prefill saves states; None: it does not.

    Every layer must be able to.

    Source: vLLM 0.33.0 `layers/mamba/gdn/qwen_gdn_linear_attn.py`
    _resolve_gdn_prefill_backend; `layers/mamba/abstract.py`
    get_mamba_prefill_checkpoint_alignment.
    """
    aligns = context.layout.release.aligns_prefill_checkpoints
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
    """Whether a prefill saves states on its way, which takes a block beside.

    Source: vLLM 0.33.0 `layers/mamba/mamba_mixer2.py` and
    `layers/mamba/gdn/qwen_gdn_linear_attn.py` get_kv_cache_spec;
    `models/kimi_k3/nvidia/kda.py` resolve_kda_prefill_backend.
    """
    release = context.layout.release
    if isinstance(layer, KimiDeltaAttentionState):
        return release.saves_kda_states and _has_flash_kda(layer, context)
    if isinstance(layer, GatedDeltaNetState):
        return sizes.has_prefill_checkpoints
    return isinstance(layer, Mamba2State) and release.saves_mamba2_states


def _has_flash_kda(layer: KimiDeltaAttentionState, context: CacheContext) -> bool:
    recurrent = context.mamba_ssm_cache_dtype
    return (
        layer.may_use_flash_kda
        and layer.head_dim == _CHECKPOINT_HEAD
        and context.dtype == "bfloat16"
        and recurrent in ("auto", "bfloat16", "float32")
        and context.major in (HOPPER, DATACENTER_BLACKWELL, WORKSTATION_BLACKWELL)
    )


def _has_flashinfer_prefill(layer: GatedDeltaNetState, context: CacheContext) -> bool:
    if context.gdn_prefill_backend not in (None, "auto", "flashinfer"):
        return False
    if context.gpu.compute_capability == (HOPPER, 0):
        return True
    is_blackwell = context.major in (DATACENTER_BLACKWELL, WORKSTATION_BLACKWELL)
    return is_blackwell and layer.head_k_dim == _CHECKPOINT_HEAD


def state_spec(
    layer: StateLayer,
    _backend: AttentionBackend | None,
    context: CacheContext,
    sizes: BlockSizes,
) -> KVCacheSpec:
    """Return the spec of a layer with states."""
    assert sizes.mamba_block_size is not None
    return MambaSpec(
        block_size=sizes.mamba_block_size,
        mamba_type=type(layer).__name__,
        state_bytes=state_bytes(layer, context),
        mamba_cache_mode=cache_mode(context),
        num_speculative_blocks=context.num_speculative_tokens,
        num_prefill_checkpoint_blocks=int(_saves_states(layer, context, sizes)),
        page_size_padded_bytes=sizes.mamba_page_size_padded_bytes,
    )


def no_backend(_layer: StateLayer, _context: CacheContext) -> None:
    """Return none: kernels of states have no say in the size of blocks."""
    return


FAMILIES: dict[type, CacheFamily] = {
    kind: CacheFamily(backend=no_backend, spec=state_spec) for kind in STATE_LAYERS
}
