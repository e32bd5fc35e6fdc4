"""How long "Which GPUs?" takes: its first rows and all of them, against their limits.

    make bench-gpus

The section of the app is opened on an event loop, as a kernel has one, with a plan on
the screen. Counted is what a reader waits for, after the pause that lets sliders rest:
from the start of the search until the page is sent its first rows, and until it is sent
all. The first run of a model fills the caches that later ones find. The longest wait is
that of anything else on the same loop, such as the step of a slider that comes
meanwhile. Processor time, which includes the map of loads, does not depend on other
work on the machine; the rest does: run it on a quiet one.

The exit status is 1 when a limit is exceeded.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass

import planner
from planner import Load
from planner.app.widgets.gpus_section import GpusSection

FIRST_LIMIT_SECONDS = 0.3
ALL_LIMIT_SECONDS = 2.0
LONG = Load(prompt_tokens=32_000, output_tokens=768, requests=20)
CHAT = Load(prompt_tokens=8_000, output_tokens=1_000, requests=32)
QUESTIONS = (
    ("Qwen/Qwen3-32B", LONG),
    ("meta-llama/Llama-3.1-70B-Instruct", CHAT),
    ("deepseek-ai/DeepSeek-R1", CHAT),
)
TIMES = ("cold", "warm")


@dataclass(kw_only=True)
class Timed:
    """Seconds of one search."""

    first: float
    whole: float
    longest_wait: float
    processor: float
    kinds: int
    """Kinds of GPU that serve."""


async def search(section: GpusSection) -> Timed:
    """Search once; time the first rows, all rows, and the loop's longest wait."""
    first: list[float] = []
    section.table.observe(lambda _: first.append(time.perf_counter()), "rows")
    begin = last = time.perf_counter()
    longest, processor = 0.0, time.process_time()
    section.refresh()
    while section.is_searching:
        await asyncio.sleep(0.0005)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return Timed(
        first=first[0] - begin,
        whole=first[-1] - begin,
        longest_wait=longest,
        processor=time.process_time() - processor,
        kinds=len(section.table.rows),
    )


def timed(model: str, load: Load) -> Timed:
    """Open a section on a plan of the model, and search."""
    section = GpusSection(lambda _changes: None)
    section.show(planner.plan(model, gpu="H100", tensor_parallel_size=8, load=load))

    async def use() -> Timed:
        section.turn(is_open=True)
        section.pause()
        return await search(section)

    return asyncio.run(use())


def main() -> int:
    """Measure, print, and say with the exit status whether the limits are kept."""
    os.environ["PLANNER_CALIBRATION"] = "off"  # plans as where nothing was measured
    is_kept = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLANNER_DATA_DIR"] = folder  # no saved prices
        for model, load in QUESTIONS:
            for name in TIMES:
                found = timed(model, load)
                is_fast = found.first < FIRST_LIMIT_SECONDS
                is_fast = is_fast and found.whole < ALL_LIMIT_SECONDS
                is_kept = is_kept and is_fast
                print(
                    f"{model:<34} {name:<5} {found.kinds:>2} kinds serve: first rows "
                    f"{found.first * 1000:4.0f} ms, all {found.whole * 1000:5.0f} ms, "
                    f"longest wait {found.longest_wait * 1000:3.0f} ms, processor "
                    f"{found.processor * 1000:4.0f} ms   "
                    f"{'ok' if is_fast else 'OVER'}"
                )
    print(
        f"limits: first rows {FIRST_LIMIT_SECONDS * 1000:.0f} ms, all "
        f"{ALL_LIMIT_SECONDS * 1000:.0f} ms"
    )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
