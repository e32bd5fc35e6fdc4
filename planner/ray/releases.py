"""Ray's releases: how each of them runs vLLM for Ray Data, one property per change.

Facts that hold for every release from the oldest to the newest are written where they
are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.errors import PlannerError

NEWEST = "2.60.0"
OLDEST = "2.44.0"
_VERSION = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[.+a-z].*)?\Z"
)


@dataclass(frozen=True, slots=True, order=True)
class RayRelease:
    """One release of Ray.

    >>> RayRelease.named("2.54.1").is_autoscaling
    False
    """

    number: tuple[int, int, int]

    @classmethod
    def named(cls, version: str) -> RayRelease:
        """Return the release of a version such as 2.60.0.

        Raises:
            PlannerError: for an invalid version, or one that is not modelled.
        """
        match = _VERSION.match(str(version))
        if match is None:
            raise PlannerError(
                f"ray_version={str(version)[:40]!r}: a release such as {NEWEST} is "
                "needed."
            )
        number = (int(match[1]), int(match[2]), int(match[3] or 0))
        if not (2, 44) <= number[:2] <= (2, 60):
            raise PlannerError(
                f"ray_version={version!r}: Ray Data LLM is modelled from {OLDEST} to "
                f"{NEWEST}. Take the nearest of these."
            )
        return cls(number)

    @property
    def version(self) -> str:
        """Return the version as Ray writes it."""
        return ".".join(str(part) for part in self.number)

    def since(self, minor: int) -> bool:
        """Return whether this is 2.`minor` or later."""
        return self.number[1] >= minor

    @property
    def is_autoscaling(self) -> bool:
        """Whether `concurrency=n` means 1 to n engines, not n from the start.

        Source: Ray 2.55.1 `llm/_internal/batch/processor/vllm_engine_proc.py`.
        """
        return self.since(55)

    @property
    def takes_ranges(self) -> bool:
        """Whether the engine's `concurrency` may be (min, max).

        2.44 accepts whole numbers only; 2.46 and 2.47 accept a pair and pass it on as
        a size; 2.48 and 2.49 refuse it.

        Source: Ray 2.50.1 `processor/base.py` ProcessorConfig.validate_concurrency.
        """
        return self.since(50) or self.number[1] == 45  # noqa: PLR2004 - 2.45

    @property
    def strategy(self) -> str:
        """The placement strategy of an engine's bundles on Ray's executor.

        Source: Ray 2.50.1 `stages/vllm_engine_stage.py` _ray_scheduling_strategy_fn.
        """
        return "PACK" if self.since(50) else "STRICT_PACK"

    @property
    def has_group_for_one_gpu(self) -> bool:
        """Whether Ray's executor makes a placement group for a single GPU as well."""
        return self.since(50)

    @property
    def chooses_ray_executor(self) -> bool:
        """Whether engines with several GPUs run on Ray's executor by default.

        Before 2.54 all run as processes of one node ("mp"); since then an engine with a
        single GPU runs inside the actor ("uni").

        Source: Ray 2.54.1 `stages/vllm_engine_stage.py` vLLMEngineStage.post_init.
        """
        return self.since(54)

    @property
    def resources_argument(self) -> str:
        """The argument that sets an engine's resources; empty: there is none."""
        if self.since(50):
            return "placement_group_config"
        return "resources_per_bundle" if self.since(45) else ""

    @property
    def has_bundle_per_worker(self) -> bool:
        """Whether placement_group_config accepts one bundle for all workers."""
        return self.since(55)

    @property
    def has_map_kwargs(self) -> bool:
        """Whether build_processor accepts preprocess_map_kwargs.

        Source: Ray 2.51.1 `processor/base.py` Processor.
        """
        return self.since(51)

    @property
    def has_stage_configs(self) -> bool:
        """Whether each stage has settings of its own, such as tokenize_stage.

        Source: Ray 2.53.0 `stages/configs.py`.
        """
        return self.since(53)

    @property
    def batch_size(self) -> int:
        """Rows of a batch, by default."""
        return 32 if self.since(46) else 64

    @property
    def max_concurrent_batches(self) -> int:
        """Batches that an engine processes concurrently, by default."""
        return 8 if self.since(46) else 4

    @property
    def reads_resolved_max_num_seqs(self) -> bool:
        """Whether max_pending_requests follows vLLM's resolved max_num_seqs.

        Before 2.56 an argument that is not set counts as 128.

        Source: Ray 2.56.1 `stages/vllm_engine_stage.py` vLLMEngineWrapper.
        """
        return self.since(56)

    def tasks_in_flight(self, max_concurrent_batches: int) -> int:
        """Return how many batches Ray Data sends to an engine at once, by default.

        Source: Ray 2.45.0, 2.46.0, 2.48.0, 2.56.1 `processor/vllm_engine_proc.py`;
        `data/_internal/execution/operators/actor_pool_map_operator.py`.
        """
        if self.since(56):
            return 2 * max_concurrent_batches
        if self.number[1] in (46, 47):
            return max(4, max_concurrent_batches)
        return 4
