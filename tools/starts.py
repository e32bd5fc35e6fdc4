"""Published start-ups of vLLM beside what the planner says of them."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import planner
from planner.engine.generations import HOPPER
from planner.engine.gpu import GPU
from planner.engine.releases import OLDEST, number_of
from planner.engine.releases.shared import COUNTS_DISTRIBUTED_START
from planner.errors import PlannerError
from planner.memory.estimate import RankMemory
from planner.memory.lines.cudagraphs import actual_bytes, layers_and_graphs
from planner.memory.lines.expert_workspace import (
    expert_transient_bytes,
    expert_workspace_bytes,
)
from planner.memory.lines.latent_context import has_latent_layers
from planner.memory.lines.non_torch import fused_all_reduce_bytes, part_names
from planner.memory.profile_run import ProfileRun
from planner.units import GIB
from tools import configs
from tools.shared_starts import shared_records

# Arguments without which a start is planned; few have them. Those starts give
# compilation_config only custom_ops, which the planner does not take; backends are
# left to the GPU, as the fits were made.
LEFT_OUT = (
    "compilation_config",
    "moe_backend",
    "attention_backend",
)
# Builds with changes of their own, such as another default of max_num_batched_tokens,
# which their records give as an argument.
OTHER_BUILDS = "kt-"
ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "data" / "corpus.jsonl"
"""Start-ups that people published, each with its address."""
MEASURED = ROOT / "planner" / "data" / "measured"
"""Starts of our own, by GPU and release; none yet."""
SHARED = ROOT / "tests" / "data" / "shared"
"""Starts that others shared, a file each; none yet."""


@dataclass(frozen=True)
class Start:
    """One start-up: its record, its plan, and its profile run on the first rank."""

    record: dict[str, Any]
    plan: planner.Plan
    run: ProfileRun

    @property
    def name(self) -> str:
        """Id of its record."""
        return str(self.record["id"])

    @property
    def model(self) -> str:
        """Folder of its config."""
        return str(self.record["config"])

    @property
    def measured(self) -> dict[str, Any]:
        """Figures of its log."""
        return dict(self.record["measured"])

    @property
    def number(self) -> tuple[int, int, int]:
        """Its release."""
        return self.run.release.number

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability of its GPU."""
        return self.plan.gpu.compute_capability

    @property
    def generation(self) -> str:
        """The key of its pool of CUDA graphs."""
        return "Hopper and later" if self.capability[0] >= HOPPER.major else "earlier"

    @property
    def ranks(self) -> int:
        """Tensor-parallel ranks."""
        return self.run.layout.tensor_parallel_size

    @property
    def is_eager(self) -> bool:
        """Whether it captures no graphs and compiles nothing."""
        return self.run.enforce_eager

    @property
    def is_usable(self) -> bool:
        """Whether it is a release as published, and one stage holds the model."""
        is_whole = self.run.layout.pipeline_parallel_size == 1
        return is_whole and not self.name.startswith(OTHER_BUILDS)

    @property
    def requested_gib(self) -> float:
        """The budget."""
        return self.plan.ranks[0].requested_memory_bytes / GIB

    @property
    def fused_gib(self) -> float:
        """Buffers of the fused all-reduce."""
        return fused_all_reduce_bytes(self.run) / GIB

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Parts of its non-torch memory."""
        return part_names(self.run)

    @property
    def start_is_beside_budget(self) -> bool:
        """Whether NCCL starts before vLLM's first look at the memory."""
        run = self.run
        return run.layout.world_size > 1 and not run.release.has(
            COUNTS_DISTRIBUTED_START
        )

    @property
    def layers_and_graphs(self) -> int:
        """Captured layers x graphs."""
        return layers_and_graphs(self.run) if self.run.capture_sizes else 0

    @property
    def is_latent(self) -> bool:
        """Whether its attention is latent."""
        return has_latent_layers(self.run)

    @property
    def expert_gib(self) -> float:
        """Buffers of routed experts, kept and given back."""
        return (
            expert_workspace_bytes(self.run) + expert_transient_bytes(self.run)
        ) / GIB

    @property
    def captured_graph_bytes(self) -> int:
        """What its CUDA graphs should take, charged or not."""
        return actual_bytes(self.run)

    @property
    def rank(self) -> RankMemory:
        """The pipeline stage whose KV cache its log states; else the smallest."""
        stage = self.measured.get("available_kv_pp_rank")
        ranks = self.plan.ranks
        least = min(ranks, key=lambda rank: rank.available_kv_cache_bytes)
        return least if stage is None else ranks[int(stage)]

    def logged(self, key: str) -> float | None:
        """Return a figure of its log in GiB; None where the log is silent."""
        value = self.record["measured"].get(key)
        return None if value is None else float(value)

    def line_gib(self, name: str) -> float:
        """Return a line of its plan in GiB."""
        return self.plan.ranks[0].line(name).size_bytes / GIB


def read_records(corpus: pathlib.Path = CORPUS) -> list[dict[str, Any]]:
    """Read the records of a file of starts."""
    return [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]


def read_starts(
    corpus: pathlib.Path = CORPUS,
    own: pathlib.Path = MEASURED,
    shared: pathlib.Path = SHARED,
) -> list[Start]:
    """Plan every start whose model, GPU and release are known and modelled.

    `own` is a folder of starts that `tools/measure.py` made, in the same form, and
    `shared` one of files that `planner calibration share` wrote.
    """
    files = [corpus, *sorted(own.glob("*.jsonl"))]
    records = [record for file in files for record in read_records(file)]
    found = map(_start, (*records, *shared_records(shared)))
    return [start for start in found if start is not None]


def arguments(record: dict[str, Any]) -> dict[str, Any]:
    """Return a start's engine arguments as far as they are modelled."""
    return {k: v for k, v in record["args"].items() if k not in LEFT_OUT}


def gpu_of(record: dict[str, Any]) -> GPU | None:
    """Return a start's GPU with the total that its log states; None when unknown."""
    total = record.get("total_gpu_gib")
    if total:
        return GPU.named(record["gpu"], total_memory_bytes=round(total * GIB))
    return GPU.named(record["gpu"]) if record["gpu"] else None


def _start(record: dict[str, Any]) -> Start | None:
    if not _is_comparable(record):
        return None
    config = configs.folder(record["config"])
    try:
        gpu = gpu_of(record)
        if gpu is None:
            return None
        plan = planner.plan(
            config,
            gpu,
            vllm_version=record["vllm_version"],
            entrypoint=record.get("entrypoint", "serve"),
            env=record.get("env"),
            **arguments(record),
        )
    except PlannerError:
        return None
    run = plan.ranks[0].profile_run if plan.ranks else None
    if run is None:
        return None
    return Start(record, plan, run)


def _is_comparable(record: dict[str, Any]) -> bool:
    """Whether model and release are known and modelled."""
    version = record["vllm_version"]
    if not version or not record["config"]:
        return False
    is_known = record["scored"] or record["model_certain"]
    return is_known and number_of(version) >= number_of(OLDEST)


def chosen_starts(description: str | None) -> tuple[pathlib.Path, pathlib.Path]:
    """Read the command line's --corpus and --shared."""
    # A report must not depend on what its author's own GPUs have measured.
    os.environ["PLANNER_CALIBRATION"] = "off"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--corpus", type=pathlib.Path, default=CORPUS)
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    chosen = parser.parse_args()
    return chosen.corpus, chosen.shared
