"""Record what vLLM's scheduler does with the blocks of KV caches, step by step.

    PYTHON tools/record_scheduler.py tests/data/scheduler_steps.json
    PYTHON tools/record_scheduler.py --days tests/data/scheduler_days.json

PYTHON is one that has vLLM; no GPU is needed, and no model: the scheduler, the KV cache
manager and the block pool are vLLM's, the tokens are numbers. Each case names groups of
layers, a number of blocks and requests. Of each step are written the tokens computed of
each running request, how often it was preempted and the numbers of its blocks in each
group (0: the empty one); the names of those that are finished; and the numbers of all
free blocks in the order in which they are taken next. 0 is written for what is as in
the step before.

A day is longer: forty requests of thousands of tokens, whose arrivals are a day's. Of
it are written how often each request was preempted and the step in which it ended, the
blocks in use at every hundredth step, and a sum over all steps of blocks in use,
requests that run and tokens that are computed.
`tests/js/scheduler.test.js` holds the planner's scheduler to the same.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import vllm
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1 import kv_cache_interface as caches
from vllm.v1.core.kv_cache_utils import (
    get_request_block_hasher,
    init_none_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

_CASES = 66
_CACHING = 0.85
"""The share of the cases with prefix caching."""
_MOST_STEPS = 400
_LONGEST = 512
_DAYS, _VISITORS = 50, 40
_LONG = 8192
_MOST_DAY_STEPS = 40_000
_EVERY = 100
_MODULUS = 1_000_003
_MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 64,
    "vocab_size": 256,
    "max_position_embeddings": _LONGEST,
    "dtype": "bfloat16",
}


def main() -> None:
    """Record all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--days", action="store_true")
    options = parser.parse_args()
    drawn = random.Random(33)

    if options.days:
        found = [recorded_day(day(drawn, number)) for number in range(_DAYS)]
    else:
        found = [recorded(case(drawn, number)) for number in range(_CASES)]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in found)
    text = f'{{"vllm": "{vllm.__version__}", "cases": [\n{lines}\n]}}\n'
    options.output.write_text(text, encoding="utf-8")


def case(drawn: random.Random, number: int) -> dict[str, Any]:
    """Draw a case: its groups by turns, all else by chance."""
    size = drawn.choice((4, 8))
    full: dict[str, Any] = {"kind": "full", "block_size": size}
    window: dict[str, Any] = {
        "kind": "window",
        "block_size": size,
        "kept": drawn.choice((5, 8, 13)),
    }
    wide = {**window, "block_size": 2 * size}
    large = {**full, "block_size": 2 * size}
    chunk = {"kind": "chunk", "block_size": size, "kept": 2 * size}
    state = {"kind": "state", "block_size": size, "reused": True}
    saved = {**state, "saved": True}
    alone = {"kind": "state", "block_size": _LONGEST, "reused": False}
    turns: tuple[list[dict[str, Any]], ...] = (
        [full],
        [window],
        [window, full],
        [window, window, full],
        [wide, wide, full] if number % 2 else [window, window, large],
        [chunk, full],
        [state, full],
        [saved, saved, full],
        [saved],
        [alone],
        [window, {**window, "kept": 3 * size}, full],
    )
    groups = turns[number % len(turns)]
    is_caching = groups != [alone] and drawn.random() < _CACHING
    if not is_caching:
        groups = [alone if one["kind"] == "state" else one for one in groups]
    count = drawn.choice((3, 4, 6))
    requests: list[dict[str, Any]] = []
    for index in range(count):
        prompt = drawn.randint(2 * size, 6 * size)
        requests.append(
            {
                "name": "ABCDEF"[index],
                "step": 1 + index * drawn.choice((1, 3, 7)),
                "prompt": prompt,
                "answer": drawn.randint(2, 6 * size),
                "shared": min(prompt, drawn.choice((0, 2, 3)) * 2 * size),
            }
        )
    longest = max(one["prompt"] + one["answer"] for one in requests)
    each = sum(
        -(-longest // one["block_size"]) if one["kind"] == "full" else 2
        for one in groups
    )
    return {
        "groups": groups,
        "blocks": int(each * drawn.choice((1.3, 1.8, 2.5))) + 3 * len(groups),
        "batched": drawn.choice((3 * size, 5 * size, 100)),
        "seqs": drawn.choice((2, 6)),
        "caching": is_caching,
        "requests": requests,
    }


def recorded(drawn: dict[str, Any]) -> dict[str, Any]:
    """Run a case to its end; return it with its steps."""
    scheduler, requests = scheduler_of(drawn)
    steps: list[list[Any]] = []
    before: list[Any] = [{}, [], []]
    waits = sorted(drawn["requests"], key=lambda one: one["step"])
    while len(steps) < _MOST_STEPS:
        while waits and waits[0]["step"] <= len(steps) + 1:
            scheduler.add_request(requests[waits.pop(0)["name"]])
        step(scheduler)
        now = _shown(scheduler, requests)
        steps.append(_news(before, now))
        before = now
        if all(one.is_finished() for one in requests.values()):
            break
    return {**drawn, "steps": steps}


def day(drawn: random.Random, number: int) -> dict[str, Any]:
    """Draw a day: of ten two have windows, one states; the others keep all tokens."""
    full: dict[str, Any] = {"kind": "full", "block_size": 16}
    window = {"kind": "window", "block_size": 16, "kept": drawn.choice((128, 1024))}
    state = {"kind": "state", "block_size": 528, "reused": True}
    turns = {4: [window, full], 9: [window, window, full], 5: [state, full]}
    groups = turns.get(number % 10, [full])
    if state in groups:
        groups = [state, {**full, "block_size": 528}]
    is_caching = state in groups or drawn.random() < _CACHING
    shared = drawn.choice((0, 500, 1000, 1500))
    length = drawn.choice((1500, 3000, 4500))
    pause = drawn.choice((10, 20, 40))
    requests: list[dict[str, Any]] = []
    arrives = 1
    for index in range(_VISITORS):
        # Two hours of a day are busy.
        is_busy = 8 <= index < 18 or 24 <= index < 32  # noqa: PLR2004 - a day's
        arrives += int(drawn.expovariate(1 / (pause / 2 if is_busy else pause * 1.5)))
        prompt = shared + int(length * drawn.uniform(0.5, 1.4))
        answer = min(drawn.randint(100, 900), _LONG - prompt)
        requests.append(
            {
                "name": str(index + 1),
                "step": arrives,
                "prompt": prompt,
                "answer": answer,
                "shared": shared,
            }
        )
    size = groups[-1]["block_size"]
    return {
        "groups": groups,
        "blocks": drawn.randint(700, 1600) * 16 // size * len(groups),
        "batched": drawn.choice((2048, 8192)),
        "seqs": drawn.choice((4, 8, 16, 256)),
        "caching": is_caching,
        "longest": _LONG,
        "requests": requests,
    }


def recorded_day(drawn: dict[str, Any]) -> dict[str, Any]:
    """Run a day to its end; return it with its blocks, preemptions and ends."""
    scheduler, requests = scheduler_of(drawn)
    pool = scheduler.kv_cache_manager.block_pool
    waits, ends, samples = list(drawn["requests"]), dict[str, int](), list[int]()
    number, checked = 0, 0
    while len(ends) < len(requests) and number < _MOST_DAY_STEPS:
        number += 1
        while waits and waits[0]["step"] <= number:
            scheduler.add_request(requests[waits.pop(0)["name"]])
        step(scheduler)
        used = drawn["blocks"] - pool.get_num_free_blocks()
        computed = sum(one.num_computed_tokens for one in scheduler.running)
        for seen in (used, len(scheduler.running), computed):
            checked = (checked * 31 + seen) % _MODULUS
        if number % _EVERY == 0:
            samples.append(used)
        for name, one in requests.items():
            if one.is_finished():
                ends.setdefault(name, number)
    rows = [
        [
            one["step"],
            one["prompt"],
            one["answer"],
            requests[one["name"]].num_preemptions,
            ends[one["name"]],
        ]
        for one in drawn["requests"]
    ]
    shared = drawn["requests"][0]["shared"]
    rest = {"shared": shared, "requests": rows, "used": samples, "checked": checked}
    return drawn | rest


def _news(before: list[Any], now: list[Any]) -> list[Any]:
    """Write 0 for a table, and for the free blocks, where they are as before."""
    held = {
        name: [
            *one[:2],
            0 if name in before[0] and before[0][name][2] == one[2] else one[2],
        ]
        for name, one in now[0].items()
    }
    return [held, now[1], 0 if before[2] == now[2] else now[2]]


def scheduler_of(drawn: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return vLLM's scheduler of a case, and its requests."""
    config, cache = _config(drawn), _cache(drawn)
    block_size, hash_size = resolve_kv_cache_block_sizes(cache, config)
    scheduler = Scheduler(
        vllm_config=config,
        kv_cache_config=cache,
        structured_output_manager=StructuredOutputManager(config),
        block_size=block_size,
        hash_block_size=hash_size,
    )
    init_none_hash(sha256)
    hasher = get_request_block_hasher(hash_size, sha256) if drawn["caching"] else None
    requests = {}
    for number, one in enumerate(drawn["requests"]):
        own = one["prompt"] - one["shared"]
        tokens = [*range(1, one["shared"] + 1)]
        tokens += [1000 * (number + 1) + place for place in range(own)]
        requests[one["name"]] = Request(
            request_id=one["name"],
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=one["answer"], ignore_eos=True),
            pooling_params=None,
            block_hasher=hasher,
        )
    return scheduler, requests


def _config(drawn: dict[str, Any]) -> Any:  # noqa: ANN401 - vLLM's own class
    """Return vLLM's configuration of a case, of a model that is never loaded."""
    longest = drawn.get("longest", _LONGEST)
    facts = json.dumps({**_MODEL, "max_position_embeddings": longest})
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(facts, encoding="utf-8")
        model = ModelConfig(
            model=folder,
            tokenizer=folder,
            skip_tokenizer_init=True,
            max_model_len=longest,
        )
    config = VllmConfig(
        model_config=model,
        cache_config=CacheConfig(enable_prefix_caching=drawn["caching"]),
        scheduler_config=SchedulerConfig(
            max_num_seqs=drawn["seqs"],
            max_num_batched_tokens=drawn["batched"],
            max_model_len=longest,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            async_scheduling=False,
        ),
        device_config=DeviceConfig("cpu"),
    )
    config.scheduler_config.max_num_batched_tokens = drawn["batched"]
    config.cache_config.block_size = drawn["groups"][0]["block_size"]
    config.cache_config.num_gpu_blocks = drawn["blocks"] + 1
    if any(one.get("reused") for one in drawn["groups"]):
        config.cache_config.mamba_cache_mode = "align"
    return config


def _cache(drawn: dict[str, Any]) -> Any:  # noqa: ANN401 - vLLM's own class
    """Return the configuration of a case's KV cache."""
    return caches.KVCacheConfig(
        num_blocks=drawn["blocks"] + 1,
        kv_cache_tensors=[],
        kv_cache_groups=[
            caches.KVCacheGroupSpec([str(number)], _spec(one))
            for number, one in enumerate(drawn["groups"])
        ],
        prefix_cache_retention_interval=0,
    )


def _spec(group: dict[str, Any]) -> Any:  # noqa: ANN401 - vLLM's own class

    size, heads = group["block_size"], {"num_kv_heads": 1, "head_size": 1}
    heads |= {"dtype": torch.bfloat16}
    if group["kind"] == "full":
        return caches.FullAttentionSpec(block_size=size, **heads)
    if group["kind"] == "window":
        return caches.SlidingWindowSpec(
            block_size=size, sliding_window=group["kept"], **heads
        )
    if group["kind"] == "chunk":
        return caches.ChunkedLocalAttentionSpec(
            block_size=size, attention_chunk_size=group["kept"], **heads
        )
    is_saved = bool(group.get("saved"))
    return caches.MambaSpec(
        block_size=size,
        shapes=((1,),),
        dtypes=(torch.bfloat16,),
        mamba_cache_mode="align" if group["reused"] else "none",
        num_prefill_checkpoint_blocks=int(is_saved),
        prefill_checkpoint_alignment=1 if is_saved else None,
    )


def step(scheduler: Any, see: Callable[[], None] | None = None) -> None:  # noqa: ANN401 - vLLM's own class
    """Make a step; where all known tokens are computed, one is drawn.

    `see` is called once what is scheduled has its blocks, and before any request ends.
    """
    output = scheduler.schedule()
    if see is not None:
        see()
    names = list(output.num_scheduled_tokens)
    drawn = []
    for name in names:
        request = scheduler.requests[name]
        is_done = request.num_computed_tokens >= request.num_tokens
        drawn.append([900_000 + request.num_tokens] if is_done else [])
    scheduler.update_from_output(
        output,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: place for place, name in enumerate(names)},
            sampled_token_ids=drawn,
        ),
    )


def _shown(scheduler: Any, requests: dict[str, Any]) -> list[Any]:  # noqa: ANN401
    """Return the requests that hold blocks, and the free blocks in their order."""
    manager = scheduler.kv_cache_manager
    held = {
        one.request_id: [
            one.num_computed_tokens,
            one.num_preemptions,
            [list(ids) for ids in manager.get_block_ids(one.request_id)],
        ]
        for one in scheduler.running
    }
    finished = [name for name, one in requests.items() if one.is_finished()]
    queue = manager.block_pool.free_block_queue
    free = [block.block_id for block in queue.get_all_free_blocks()]
    return [held, finished, free]


if __name__ == "__main__":
    main()
