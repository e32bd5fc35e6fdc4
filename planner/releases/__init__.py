"""vLLM releases: which rules each of them has.

A `Release` is a version and one property per fact that changed over the versions, by
topic in the modules of this package. What did not change has no property here; it is
written where it is used. A version between
two known ones follows the older; one newer than all is planned with the newest rules,
and the plan says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.errors import PlannerError
from planner.releases.blocks import BlockFacts
from planner.releases.engines import EngineFacts
from planner.releases.experts import ExpertsFacts
from planner.releases.graphs import GraphFacts
from planner.releases.history import came_later as came_later
from planner.releases.kv_cache import KVCacheFacts
from planner.releases.latent import LatentFacts
from planner.releases.measuring import MeasuringFacts
from planner.releases.processor import ProcessorFacts
from planner.releases.profiling import ProfilingFacts
from planner.releases.quantization import QuantizationFacts
from planner.releases.runner import RunnerFacts
from planner.releases.start import StartFacts
from planner.releases.weights import WeightsFacts
from planner.releases.wording import WordingFacts

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
class Release(
    StartFacts,
    EngineFacts,
    GraphFacts,
    RunnerFacts,
    MeasuringFacts,
    BlockFacts,
    KVCacheFacts,
    WordingFacts,
    WeightsFacts,
    ExpertsFacts,
    QuantizationFacts,
    LatentFacts,
    ProfilingFacts,
    ProcessorFacts,
):
    """One release of vLLM, and the facts of it that decide memory."""


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
