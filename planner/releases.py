"""vLLM releases: which rules each of them has.

A `Release` is a version and one property per fact that changed over the versions. What
did not change has no property here; it is written where it is used. A version between
two known ones follows the older; one newer than all is planned with the newest rules,
and the plan says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.errors import PlannerError

NEWEST = "0.33.0"
OLDEST = "0.9.2"
MODELLED = (
    *("0.33.0", "0.32.0", "0.31.0", "0.30.0", "0.29.0", "0.28.0", "0.27.1", "0.27.0"),
    *("0.26.0", "0.25.1", "0.25.0", "0.24.0", "0.23.0", "0.22.1", "0.22.0", "0.21.0"),
    *("0.20.2", "0.20.1", "0.20.0", "0.19.1", "0.19.0", "0.18.1", "0.18.0", "0.17.1"),
    *("0.17.0", "0.16.0", "0.15.1", "0.15.0", "0.14.1", "0.14.0", "0.13.0", "0.12.0"),
    *("0.11.2", "0.11.1", "0.11.0", "0.10.2", "0.10.1", "0.10.0", "0.9.2"),
)
"""Releases whose sources were read, newest first."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+a-z].*)?\Z")


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """One release of vLLM, and the facts of it that decide memory."""

    number: tuple[int, int, int]

    @property
    def version(self) -> str:
        """The release as text, such as 0.33.0."""
        return ".".join(map(str, self.number))

    def since(self, major: int, minor: int, patch: int = 0) -> bool:
        """Return whether this release is that one or a later one."""
        return self.number >= (major, minor, patch)

    @property
    def gpu_memory_utilization(self) -> float:
        """Share of the GPU's memory that vLLM takes unless told otherwise.

        Source: vLLM `config/cache.py` CacheConfig.gpu_memory_utilization.
        """
        return 0.92 if self.since(0, 20) else 0.90

    @property
    def estimates_cudagraphs(self) -> bool:
        """Whether start-up estimates the memory of CUDA graphs before it takes any.

        Source: vLLM 0.18.0 `v1/worker/gpu_model_runner.py` profile_cudagraph_memory.
        """
        return self.since(0, 18)

    @property
    def charges_cudagraphs(self) -> bool:
        """Whether that estimate is taken off the KV cache unless told otherwise.

        Source: vLLM `envs.py` VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS.
        """
        return self.since(0, 20)

    @property
    def subtracts_consumed(self) -> bool:
        """Whether the budget is closed by what the device lost, not by PyTorch's count.

        Before: weights + increase of PyTorch's peak + increase of other memory.

        Source: vLLM 0.27.0 `utils/mem_utils.py` memory_profiling.
        """
        return self.since(0, 27)

    @property
    def has_large_gpu_batch(self) -> bool:
        """Whether GPUs from 160 GiB get a batch default of their own.

        Source: vLLM 0.28.0 `engine/arg_utils.py` get_batch_defaults.
        """
        return self.since(0, 28)

    @property
    def schedules_ahead(self) -> bool:
        """Whether a batch is prepared while one runs, unless told otherwise.

        Source: vLLM 0.14.0 `config/vllm.py` (async_scheduling).
        """
        return self.since(0, 14)

    @property
    def keeps_tokens_in_flight(self) -> bool:
        """Whether windows keep all scheduled batches' tokens, not only one batch's.

        Source: vLLM 0.26.0 `v1/kv_cache_interface.py` SlidingWindowSpec.
        """
        return self.since(0, 26)

    @property
    def counts_tokens_by_concurrency(self) -> bool:
        """Whether "GPU KV cache size" is concurrency x length, not blocks x block size.

        Source: vLLM 0.20.2 `v1/core/kv_cache_utils.py`.
        """
        return self.since(0, 20, 2)

    @property
    def sets_null_block_aside(self) -> bool:
        """Whether the check of one request leaves the null block out.

        Source: vLLM 0.29.0 `v1/core/kv_cache_utils.py` check_enough_kv_cache_memory.
        """
        return self.since(0, 29)

    @property
    def stretches_yarn(self) -> bool:
        """Whether YaRN's factor multiplies the length that the config allows.

        Source: vLLM 0.30.0 `config/model.py` _get_and_verify_max_len.
        """
        return not self.since(0, 30)


def number_of(version: str) -> tuple[int, int, int]:
    """Return a version as three numbers.

    >>> number_of("v0.20.2"), number_of("0.18")
    ((0, 20, 2), (0, 18, 0))

    Raises:
        PlannerError: when the text is not a release.
    """
    match = _VERSION.match(version.strip())
    if match is None:
        raise PlannerError(
            f"vllm_version={version!r} is not a release such as {NEWEST}."
        )
    return int(match[1]), int(match[2]), int(match[3] or 0)


def resolve_version(asked: str) -> tuple[Release, tuple[str, ...]]:
    """Return the release whose rules apply, and what a reader should know about it.

    Raises:
        PlannerError: when the text is not a release, or one older than any known.
    """
    number, newest = number_of(asked), number_of(NEWEST)
    if number < number_of(OLDEST):
        raise PlannerError(
            f"vllm_version={asked!r} is older than {OLDEST}, the oldest that is "
            "modelled. It had another engine and other rules, so no figure is given."
        )
    if number[:2] > newest[:2]:
        return Release(newest), (
            f"vLLM {asked} is newer than the planner: "
            f"planned with the rules of {NEWEST}.",
        )
    return Release(number), ()


NEWEST_RELEASE = Release(number_of(NEWEST))
