"""States of recurrent layers on a rank: their dtypes, modes and checkpoints."""

from dataclasses import replace

import pytest

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.memory.kv_cache.backend import CachePlace
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_spec import Request
from planner.memory.kv_cache.mamba_caches import (
    checkpoint_alignment,
    first_mamba_block_size,
    state_bytes,
    state_spec,
)
from planner.memory.kv_cache.specs_of_states import MambaSpec
from planner.models.states import (
    GatedDeltaNetState,
    KimiDeltaAttentionState,
    LinearAttentionState,
    Mamba2State,
    StateLayer,
)

GDN = GatedDeltaNetState(
    num_k_heads=1, num_v_heads=1, head_k_dim=128, head_v_dim=10, conv_kernel=2
)
"""Convolution 2 x 128 + 10 = 266 values, recurrence 10 x 128 = 1,280."""
MAMBA2 = Mamba2State(
    intermediate_size=4,
    n_groups=1,
    num_heads=2,
    head_dim=2,
    state_size=3,
    conv_kernel=2,
)
KIMI = KimiDeltaAttentionState(num_heads=1, head_dim=128, may_use_flash_kda=True)


def context(gpu: str | GPU = "H100", **changes: object) -> CacheContext:
    """One rank in bfloat16 with prefix caching."""
    device = gpu_named(gpu) if isinstance(gpu, str) else gpu
    plain = CacheContext(gpu=device, layout=ParallelLayout(), dtype="bfloat16")
    return replace(plain, **changes)  # type: ignore[arg-type]


def spec(layer: StateLayer, where: CacheContext, **sizes: object) -> MambaSpec:
    """The spec in blocks of 64 tokens."""
    blocks = replace(BlockSizes(block_size=64, mamba_block_size=64), **sizes)  # type: ignore[arg-type]
    made = state_spec(layer, CachePlace(None, where, blocks))
    assert isinstance(made, MambaSpec)
    return made


def test_states_have_the_models_dtype_by_default() -> None:
    """266 and 1,280 values of 2 bytes, of 4 in float32."""
    assert (532, 2560) == state_bytes(GDN, context())
    assert (1064, 5120) == state_bytes(GDN, context(dtype="float32"))


def test_the_model_may_choose_the_dtype_of_its_recurrence() -> None:
    """float32 for 1,280 values, until the user says otherwise."""
    layer = replace(GDN, recurrent_dtype="float32")
    assert (532, 5120) == state_bytes(layer, context())
    told = context(mamba_ssm_cache_dtype="bfloat16")
    assert (532, 2560) == state_bytes(layer, told)


def test_the_cache_dtype_holds_for_both_unless_the_recurrence_has_its_own() -> None:
    """Both in float32; then the recurrence in float16 beside."""
    assert (1064, 5120) == state_bytes(GDN, context(mamba_cache_dtype="float32"))
    both = context(mamba_cache_dtype="float32", mamba_ssm_cache_dtype="float16")
    assert (1064, 2560) == state_bytes(GDN, both)


def test_linear_attention_heeds_the_cache_dtype_alone() -> None:
    """2 x 4 x 4 values of 4 bytes, whatever the recurrence's dtype."""
    layer = LinearAttentionState(num_heads=2, head_dim=4)
    both = context(mamba_cache_dtype="float32", mamba_ssm_cache_dtype="float16")
    assert (128,) == state_bytes(layer, both)


def test_kimi_refuses_a_float16_recurrence() -> None:
    """In vLLM's words."""
    with pytest.raises(Refused, match="KDA recurrent state supports only auto"):
        state_bytes(KIMI, context(mamba_ssm_cache_dtype="float16"))


@pytest.mark.parametrize(
    ("gpu", "head", "alignment"),
    [
        ("H100", 128, 64),
        ("H100", 64, 64),
        ("B200", 128, 64),
        ("B200", 64, None),
        ("RTXPRO6000", 128, 64),
        ("L4", 128, None),
        ("A100", 128, None),
    ],
)
def test_flashinfer_saves_states_every_64_tokens(
    gpu: str, head: int, alignment: int | None
) -> None:
    """On Hopper, and on Blackwell with keys of 128."""
    layer = replace(GDN, head_k_dim=head)
    assert alignment == checkpoint_alignment([layer], context(gpu))


def test_states_are_saved_only_when_all_layers_can_and_someone_reads_them() -> None:
    """Not without prefix caching, beside Mamba, with Triton or in Olmo's layer."""
    assert checkpoint_alignment([GDN], context(has_prefix_caching=False)) is None
    assert checkpoint_alignment([GDN, MAMBA2], context()) is None
    triton = context(gdn_prefill_backend="triton")
    assert checkpoint_alignment([GDN], triton) is None
    olmo = replace(GDN, exports_checkpoints=False)
    assert checkpoint_alignment([olmo], context()) is None
    assert checkpoint_alignment([], context()) is None


def test_mamba_2_always_saves_a_state_and_kimi_where_flash_kda_runs() -> None:
    """One block beside; Kimi's not on Ada, nor in float16, nor with other heads."""
    assert 1 == spec(MAMBA2, context()).num_prefill_checkpoint_blocks
    assert 1 == spec(KIMI, context()).num_prefill_checkpoint_blocks
    narrow = replace(KIMI, head_dim=64)
    for layer, where in (
        (KIMI, context("L4")),
        (KIMI, context(dtype="float16")),
        (narrow, context()),
        (replace(KIMI, may_use_flash_kda=False), context()),
        (GDN, context()),
    ):
        assert 0 == spec(layer, where).num_prefill_checkpoint_blocks
    saving = spec(GDN, context(), has_prefill_checkpoints=True)
    assert 1 == saving.num_prefill_checkpoint_blocks


def test_without_prefix_caching_a_block_is_the_whole_request() -> None:
    """max_model_len; with it the block of attention, or what the user asked."""
    alone = context(has_prefix_caching=False, max_model_len=5000)
    assert 5000 == first_mamba_block_size(alone, 16)
    assert 16 == first_mamba_block_size(context(), 16)
    assert 32 == first_mamba_block_size(context(requested_block_size=32), 16)
    assert 48 == first_mamba_block_size(context(requested_mamba_block_size=48), 16)


def by(*release: int, **changes: object) -> CacheContext:
    """One rank by the rules of a release."""
    return context(layout=ParallelLayout(release=Release(release)), **changes)  # type: ignore[arg-type]


def test_gated_delta_nets_once_had_one_dtype() -> None:
    """The recurrence in bfloat16 until 0.16.0, whatever the model asks for."""
    layer = replace(GDN, recurrent_dtype="float32")
    assert (532, 2560) == state_bytes(layer, by(0, 16, 0))
    asked = by(0, 16, 0, mamba_ssm_cache_dtype="float32")
    assert (532, 2560) == state_bytes(layer, asked)
    assert (532, 5120) == state_bytes(layer, by(0, 17, 0))


def test_what_nemotron_asks_for_was_read_late() -> None:
    """8 x 3 / 2 = 12 values: bfloat16, then float16 where silent, then float32."""
    loud = replace(MAMBA2, recurrent_dtype="float32")
    silent = replace(loud, has_default_dtype=True)
    found = [
        (state_bytes(loud, by(*release))[1], state_bytes(silent, by(*release))[1])
        for release in ((0, 12, 0), (0, 13, 0), (0, 19, 1), (0, 20, 0))
    ]
    assert [(24, 24), (48, 24), (48, 24), (48, 48)] == found


@pytest.mark.parametrize(
    ("layer", "before", "after"),
    [
        (KIMI, (0, 28, 0), (0, 29, 0)),
        (MAMBA2, (0, 31, 0), (0, 32, 0)),
    ],
)
def test_blocks_for_saved_states_came_one_kind_after_another(
    layer: StateLayer, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """A request's two states, then one beside."""
    request = Request(max_model_len=1)
    assert 2 == spec(layer, by(*before)).blocks(request)
    assert 3 == spec(layer, by(*after)).blocks(request)
