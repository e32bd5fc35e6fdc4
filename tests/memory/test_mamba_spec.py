"""The KV cache spec of layers that keep states."""

from dataclasses import replace

from planner.memory.kv_cache.kv_spec import Request
from planner.memory.kv_cache.specs_of_states import ALIGN, MambaSpec

NANO = MambaSpec(block_size=4096, mamba_type="Mamba2State", state_bytes=(96, 1000))


def test_a_page_holds_all_states_of_a_layer() -> None:
    """96 + 1,000 bytes, or as many as a neighbour's page."""
    assert 1096 == NANO.page_size_bytes
    assert 2048 == NANO.with_page_size(2048).page_size_bytes
    assert 4096 == NANO.with_page_size(2048).block_size


def test_a_request_takes_as_many_blocks_whatever_its_length() -> None:
    """One state; with prefix caching the one before it, and one that is saved."""
    for length in (1, 1_000_000):
        request = Request(max_model_len=length)
        assert 1 == NANO.blocks(request)
        aligned = replace(NANO, mamba_cache_mode=ALIGN)
        assert 2 == aligned.blocks(request)
        saving = replace(aligned, num_prefill_checkpoint_blocks=1)
        assert 3 == saving.blocks(request)


def test_states_of_one_size_can_share_a_group() -> None:
    """Whatever the kind of layer, but not with other pages or more blocks."""
    other = replace(NANO, mamba_type="Mamba1State")
    assert NANO.is_uniform_with([NANO, other])
    assert not NANO.is_uniform_with([NANO, NANO.with_page_size(2048)])
    assert not NANO.is_uniform_with([replace(NANO, num_prefill_checkpoint_blocks=1)])
