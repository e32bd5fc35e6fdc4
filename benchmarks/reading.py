"""Measure what reading a text takes: milliseconds and memory, against the limits.

    python benchmarks/reading.py

Every text of tests/data/texts, 5,000 damaged ones (tests/reading), long ones, and
a log of 5 MB. Exit status 1 where one takes longer than 200 ms or more than 100 MB.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import planner  # noqa: E402
from tests.reading.test_mutated_texts import TEXTS, mutated  # noqa: E402

LIMIT_MS, LIMIT_MB = 200.0, 100.0
NUM_TEXTS = 5_000
_MB = 1_000_000
_LONG = 64_000


def long_texts() -> Iterator[tuple[str, str]]:
    """Yield texts as long as any that is read, and longer ones."""
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
    yield "a long line of flags", command + " --served-model-name a" * (_LONG // 25)
    yield (
        "a long quoted word",
        f"{command} --chat-template '" + "x" * (_LONG - 100) + "'",
    )
    yield "an open quote", f"{command} --chat-template '" + "x " * (_LONG // 2 - 100)
    yield "nested braces", "{" * (_LONG - 1)
    yield "a long manifest", "args:\n" + "- --max-model-len\n- '8192'\n" * (_LONG // 30)
    aliases = "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
    )
    yield "a bomb of anchors", "apiVersion: v1\nkind: Pod\na0: &a0 x\n" + aliases
    code = (
        "from vllm import LLM\n" + "x = [" + "1, " * (_LONG // 4) + "]\nLLM('org/m')\n"
    )
    yield "long code", code
    line = "INFO 11-20 10:00:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0)\n"
    chatter = "INFO 11-20 10:00:01 [loggers.py:123] Engine 000: Avg prompt throughput\n"
    yield "a log of 5 MB", line + chatter * (5 * _MB // len(chatter))
    yield "5 MB of nothing", "x" * (5 * _MB)


def main() -> int:
    """Print the slowest and the largest; return whether all were within the limits."""
    random = Random(22)
    groups: dict[str, list[str]] = {
        "texts of people": TEXTS,
        "damaged texts": [
            mutated(TEXTS[n % len(TEXTS)], random) for n in range(NUM_TEXTS)
        ],
    }
    groups |= {name: [text] for name, text in long_texts()}
    planner.read("vllm serve org/m")  # imports are not what is measured
    worst_ms = worst_mb = 0.0
    for name, texts in groups.items():
        slowest = max(_milliseconds(text) for text in texts)
        largest = max(_megabytes(text) for text in texts)
        print(f"{name}: {len(texts):,}, at most {slowest:.1f} ms, {largest:.1f} MB")
        worst_ms, worst_mb = max(worst_ms, slowest), max(worst_mb, largest)
    return int(worst_ms > LIMIT_MS or worst_mb > LIMIT_MB)


def _read(text: str) -> None:
    with suppress(planner.PlannerError):
        planner.read(text)


def _milliseconds(text: str) -> float:
    def once(call: Callable[[], float] = time.perf_counter) -> float:
        start = call()
        _read(text)
        return (call() - start) * 1000

    first = once()
    # A second try where another program may have taken the processor.
    return first if first < LIMIT_MS / 4 else min(first, once())


def _megabytes(text: str) -> float:
    tracemalloc.start()
    _read(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / _MB


if __name__ == "__main__":
    sys.exit(main())
