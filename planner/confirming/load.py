"""The load probe: requests of the planned length, all at once.

It shows whether as many of them are in work together as the plan said, before the KV
cache is full and vLLM makes requests wait or start over.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from planner.confirming.alone.offline import METRICS
from planner.confirming.collecting import load_from
from planner.confirming.measurement import LoadFigures
from planner.confirming.server import Server
from planner.errors import PlannerError
from planner.result import Plan

_STEP_SECONDS = 0.1
_LEAST_OUTPUT = 16
_SPARE = 2


def load_of(plan: Plan, num_requests: int) -> dict[str, int]:
    """Return how long prompts and answers are, in tokens, for `num_requests`.

    Prompt and answer together are `max_model_len`. The answer is so long that the first
    request still goes on when the prompt of the last has been read: only then are all
    of them in work at once.

    Raises:
        PlannerError: for a plan that has no requests to send.
    """
    if plan.resolved is None or plan.model is None or plan.model.is_pooling:
        raise PlannerError(
            "A load probe needs a model that generates text and a plan that starts."
        )
    length = plan.resolved.max_model_len
    batch = plan.resolved.max_num_batched_tokens
    steps_to_read_all = -(-num_requests * length // batch)
    output = min(length // 2, max(_LEAST_OUTPUT, _SPARE * steps_to_read_all))
    return {
        "num_requests": num_requests,
        "prompt_tokens": max(1, length - output),
        "output_tokens": max(1, output),
        "vocab_size": plan.model.vocab_size,
    }


def send_load(
    server: Server, asked: Mapping[str, int], is_stopped: Callable[[], bool]
) -> LoadFigures:
    """Send the requests to a server at once and watch its metrics until they end."""
    before = server.metrics().get("vllm:num_preemptions", 0.0)
    peaks: dict[str, float] = dict.fromkeys(METRICS.values(), 0.0)
    draw = random.Random(0)
    # Different beginnings: blocks of a common one would be shared.
    prompts = [
        [draw.randrange(asked["vocab_size"]) for _ in range(asked["prompt_tokens"])]
        for _ in range(asked["num_requests"])
    ]
    done = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(server, peaks, done), name="load probe", daemon=True
    )
    watcher.start()
    begin = time.monotonic()

    def send(prompt: list[int]) -> bool:
        if is_stopped():
            return False
        try:
            server.complete(
                prompt, asked["output_tokens"], ignore_eos=True, detokenize=False
            )
        except (OSError, PlannerError):
            return False
        return True

    try:
        with ThreadPoolExecutor(max_workers=len(prompts)) as pool:
            finished = sum(pool.map(send, prompts))
    finally:
        done.set()
        watcher.join()
    seconds = time.monotonic() - begin
    told = {**peaks, "finished": finished, "seconds": seconds}
    return load_from(asked, told, preempted_before=before)


def _watch(server: Server, peaks: dict[str, float], done: threading.Event) -> None:
    while True:
        is_last = done.is_set()
        try:
            told = server.metrics()
        except OSError:
            return
        for metric, name in METRICS.items():
            peaks[name] = max(peaks[name], told.get(metric, 0.0))
        if is_last:
            return
        done.wait(_STEP_SECONDS)
