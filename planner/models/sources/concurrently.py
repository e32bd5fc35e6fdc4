"""Several requests at the same time, where one after the other would wait for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeAlias

_AT_ONCE = 8
"""As many as huggingface_hub downloads at the same time by default."""

Result: TypeAlias = Any
"""Whatever each job returns: they differ."""


def concurrently(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of jobs in their order, each run in a thread.

    The bounds of this thread's requests hold for all of them.

    Raises:
        Exception: what the first job that failed raised, once all have ended.

    >>> concurrently([lambda: 1, lambda: 2])
    [1, 2]
    """
    if len(jobs) <= 1:
        return [job() for job in jobs]
    contexts = [copy_context() for _ in jobs]
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(jobs))) as pool:
        return list(pool.map(lambda own, job: own.run(job), contexts, jobs))
