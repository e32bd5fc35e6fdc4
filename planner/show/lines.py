"""Memory lines as table rows, and what each line is and where vLLM decides it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from planner.engine.releases import NEWEST
from planner.show.html import Content, Html, element, fragment, tag
from planner.show.palette import css_background
from planner.show.pieces import NOTHING, number
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.account import Basis, Line
    from planner.memory.host.nodes import NodeLine

why = element("p", class_="pl-why")
"""Writes a line's arithmetic."""
_heading = element("th", scope="row")
_range = element("td", class_="pl-number pl-range")
_basis = element("td", class_="pl-basis")
_explained = element("tr", class_="pl-explained")
_whole_row = element("td", colspan="4")

SOURCES = f"https://github.com/vllm-project/vllm/blob/v{NEWEST}/vllm/"


def line_rows(
    line: Line | NodeLine, key: str, *, beside: str, explained: Content
) -> Html:
    """Write a line's row and the row below that explains it.

    `key` identifies the line, so that the page knows which ones a reader has opened.
    """
    return paired_rows(
        named(line.name, line.basis),
        key,
        figures=(format_gib(line.size_bytes), beside, line.basis),
        explained=explained,
    )


@lru_cache(256)
def named(name: str, basis: Basis | None = None) -> Html:
    """Write a line's name after a swatch of its fill and hatch, if it has a basis."""
    written = tag("span", name, class_="pl-line-name")
    if basis is None:
        return written
    background = f"background:{css_background(name, basis)}"
    return fragment(tag("span", class_="pl-swatch", style=background), written)


def paired_rows(
    heading: Content, key: str, *, figures: tuple[str, str, str], explained: Content
) -> Html:
    """Write a row of a name, a size, a range and a basis, and its explanation below."""
    size, beside, basis = figures
    shown = tag(
        "tr",
        _heading(heading),
        number(size),
        _range(beside),
        _basis(basis),
        class_="pl-line",
        data_key=key,
    )
    return fragment(shown, _explained(_whole_row(explained)))


@frozen(kw_only=False)
class LineFacts:
    """What a memory line is, and the code that decides it."""

    meaning: str
    file: str = ""
    """Path in the newest release; empty where no code of vLLM decides the figure."""
    symbol: str = ""

    @property
    def address(self) -> str:
        """URL of the file."""
        return f"{SOURCES}{self.file}" if self.file else ""

    def source_html(self, release: str) -> Html:
        """Name the planned release, and the deciding code in the newest one."""
        if not self.file:
            return NOTHING
        file = tag(
            "a",
            self.file,
            href=self.address,
            target="_blank",
            rel="noopener noreferrer",
        )
        place = fragment(file, ", ", tag("code", self.symbol))
        if release != NEWEST:
            place = fragment(f"({NEWEST} has it in ", place, ")")
        return tag("p", f"Source: vLLM {release} ", place, class_="pl-source")


_RUNNER = "v1/worker/gpu/model_runner.py"
_WORKER = "v1/worker/gpu_worker.py"

LINE_FACTS = {
    "weights": LineFacts(
        "The model's parameters as one GPU holds them after loading.",
        _RUNNER,
        "load_model",
    ),
    "persistent buffers": LineFacts(
        "Inputs and sampling state of every request slot, allocated once and kept.",
        "v1/worker/gpu/states.py",
        "RequestState",
    ),
    "peak activation": LineFacts(
        "The most that one step needs temporarily: vLLM runs its largest batch once to "
        "measure it.",
        _RUNNER,
        "profile_run",
    ),
    "non-torch": LineFacts(
        "Memory that PyTorch does not allocate after vLLM's first measurement: loaded "
        "kernels, NCCL, libraries. The driver's context was there before.",
        "utils/mem_utils.py",
        "memory_profiling",
    ),
    "CUDA graphs": LineFacts(
        "Recorded steps that are replayed without the CPU; vLLM measures two of them "
        "and reserves memory for all.",
        _RUNNER,
        "profile_cudagraph_memory",
    ),
    "CUDA graphs not charged": LineFacts(
        "What the recorded steps take beyond the estimate that is subtracted for them.",
        _RUNNER,
        "capture_model",
    ),
    "frontend video decoding": LineFacts(
        "Room for videos that API servers decode on the GPU, taken off the KV cache.",
        "multimodal/gpu_ipc_memory.py",
        "reserve_mm_ipc_gpu_memory",
    ),
    "KV cache": LineFacts(
        "What is left of the budget: keys and values of the tokens being processed.",
        _WORKER,
        "determine_available_memory",
    ),
    "unused budget": LineFacts(
        "What is left of the budget. No layer of this model has a KV cache, so vLLM "
        "neither measures nor allocates it.",
        "v1/engine/core.py",
        "_initialize_kv_caches",
    ),
    "not planned": LineFacts(
        "Requested memory that a fixed kv_cache_memory_bytes leaves unused.",
        _WORKER,
        "determine_available_memory",
    ),
    "CUDA context": LineFacts(
        "What the driver takes for the process before vLLM measures the free memory.",
        _WORKER,
        "init_device",
    ),
    "block tables": LineFacts(
        "Which blocks belong to which request; allocated after the KV cache is sized.",
        "v1/worker/gpu/block_table.py",
        "BlockTables",
    ),
    "attention workspaces": LineFacts(
        "Scratch memory of the attention kernels, allocated at their first use.",
        "envs.py",
        "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    ),
}
"""By the name of the line."""

_CPU_RUNNER = "v1/worker/cpu_model_runner.py"
_CPU_WORKER = "v1/worker/cpu_worker.py"

CPU_FACTS = {
    "weights": LineFacts(
        "The model's parameters as a worker's process holds them after loading.",
        _CPU_RUNNER,
        "load_model",
    ),
    "persistent buffers": LineFacts(
        "Token ids of every request slot, which grow with max_model_len, and packed "
        "copies of embeddings and head.",
        "v1/worker/gpu_input_batch.py",
        "InputBatch",
    ),
    "peak activation": LineFacts(
        "What compiling and the warm-up leave with the process.",
        _CPU_RUNNER,
        "warming_up_model",
    ),
    "non-torch": LineFacts(
        "The worker's process itself: Python, PyTorch, vLLM, and what packing the "
        "weights leaves behind.",
        _CPU_WORKER,
        "determine_available_memory",
    ),
    "KV cache": LineFacts(
        LINE_FACTS["KV cache"].meaning, _CPU_WORKER, "determine_available_memory"
    ),
}
"""What vLLM's CPU build decides elsewhere; other lines are as on a GPU."""


def line_facts(name: str, *, is_cpu: bool = False) -> LineFacts | None:
    """Return what a line is and where it is decided; None for an unknown name."""
    found = CPU_FACTS.get(name) if is_cpu else None
    return found or LINE_FACTS.get(name)
