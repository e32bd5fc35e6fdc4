"""Advice about what users switched on: graphs, offloading, sleep, videos."""

import planner
from planner.solve.advice import makers
from planner.solve.advice.situation import Situation
from planner.units import GIB


def _proposed(name, plan):
    """Return the changes that one maker proposes, in its order."""
    situation = Situation.of(plan, None)
    return [dict(candidate.changes) for candidate in makers.MAKERS[name](situation)]


def _plan(model="Qwen/Qwen3-8B", **arguments):
    return planner.plan(model, **{"gpu": "H100", **arguments})


def _item(advice, *names):
    return next(item for item in advice.items if set(item.changes) == set(names))


def test_fewer_of_the_capture_sizes_that_were_given():
    """Up to 32, 16, ... of 1, 2, 4, ..., 64: as an argument, and in the table."""
    sizes = [1, 2, 4, 8, 16, 32, 64]
    own = _proposed("capture sizes", _plan(cudagraph_capture_sizes=sizes))
    config = {"cudagraph_capture_sizes": sizes, "cudagraph_mode": "PIECEWISE"}
    inside = _proposed("capture sizes", _plan(compilation_config=config))

    assert own[0] == {"cudagraph_capture_sizes": (1, 2, 4, 8, 16, 32)}
    assert own[-1] == {"cudagraph_capture_sizes": (1,)}
    assert inside[0] == {
        "compilation_config": config | {"cudagraph_capture_sizes": sizes[:-1]}
    }
    assert _proposed("capture sizes", _plan()) == []


def test_a_machine_that_holds_less_is_given_less():
    """8 GiB of weights and 60 of blocks on 32 GiB; 14 of weights on 10; asleep on 8."""
    asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 4096}
    blocks = _plan(**asked, cpu_offload_gb=8, kv_offloading_size=60, node_memory_gib=32)
    weights = _plan(**asked, cpu_offload_gb=14, node_memory_gib=10)
    asleep = _plan(**asked, enable_sleep_mode=True, node_memory_gib=8)

    best = _item(planner.advise(blocks), "kv_offloading_size")
    assert best.plan.fits
    held = best.plan.host[0]
    assert 0 <= held.capacity_bytes - held.certain_bytes < GIB + GIB // 2
    less = _item(planner.advise(weights), "cpu_offload_gb")
    assert less.plan.fits
    assert 0 < less.changes["cpu_offload_gb"] < 14
    assert _proposed("no sleep", asleep) == [{"enable_sleep_mode": None}]
    roomy = blocks.changed(node_memory_gib=512)
    names = ("offloaded blocks", "offloaded weights", "no sleep")
    assert [_proposed(name, roomy) for name in names] == [[], [], []]


def test_videos_can_be_decoded_on_the_processor():
    """2 GiB of each GPU are free for the KV cache again."""
    plan = _plan("Qwen/Qwen2.5-VL-7B-Instruct", mm_ipc_gpu_memory_gb=2)
    (changes,) = _proposed("no video decoding", plan)

    changed = plan.changed(**changes)
    free = [one.limiting_rank.available_kv_cache_bytes for one in (plan, changed)]
    assert free[1] - free[0] == 2 * GIB
    assert _proposed("no video decoding", changed) == []
