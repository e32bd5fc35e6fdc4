"""The figures of the GPU catalogue: sourced, consistent, and as measured."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from planner.engine.gpu import GPU, catalogue, gpu_dict, search
from planner.engine.gpu_text import gpu_line
from planner.units import GIB, MIB
from tests.rows import each_row
from tools.starts import read_records

ROOT = Path(__file__).parents[2]
ANSWERED = json.loads(
    (ROOT / "tests" / "data" / "answers" / "gpus.json").read_text(encoding="utf-8")
)
"""The GPUs for which answers of vLLM's own code were recorded."""
WHOLE_CARD = (
    "repo-sridhar1804-logs-vllm-log",
    "free-wsl-24gb",
    "free-wsl-5090-fail",
)
"""Under WSL the total is the card's, with what the driver keeps."""
LESS_SHARED = (
    "free-gb10-0.92",
    "free-gb10-0.9435-fail",
    "hv-60823496477-qwen38-27b-nvfp4-gb10-0.27.1-1m",
    "hv-61316607224-qwen38-27b-bf16-gb10-0.27.1-32k",
)
"""GB10 with 119.6 GiB: the kernel, not the card, says what of its memory is left."""

WHOLE = [gpu for gpu in catalogue() if not gpu.mig_profile]
SLICES = [gpu for gpu in catalogue() if gpu.mig_profile]


def by_name(gpu: GPU) -> str:
    """Name a parametrised test."""
    return gpu.name


# --- The catalogue -----------------------------------------------------------------


def test_the_catalogue_is_large_and_has_whole_gpus_first() -> None:
    """At least 40; slices stand behind the GPUs they are cut from."""
    assert len(catalogue()) >= 40
    assert [*WHOLE, *SLICES] == list(catalogue())


@each_row("gpu", catalogue(), ids=by_name)
def test_every_figure_has_a_source(gpu: GPU) -> None:
    """A measured total names its record, an assumed one says how; no figure is bare."""
    told = {
        "total_memory_bytes",
        *(
            name
            for name in (
                "nvml_memory_bytes",
                "num_sms",
                "memory_bandwidth_bytes_per_second",
            )
            if getattr(gpu, name) is not None
        ),
    }

    assert set() == {name for name in told if not gpu.source_of(name)}
    assert gpu.total_basis in ("measured", "assumed")
    assert gpu.source == gpu.source_of("total_memory_bytes")


@each_row("gpu", [gpu for gpu in WHOLE if gpu.nvml_memory_bytes], ids=by_name)
def test_the_runtime_reports_a_little_less_than_nvidia_smi(gpu: GPU) -> None:
    """The driver keeps some hundred MiB, never more than one twentieth."""
    assert gpu.nvml_memory_bytes is not None
    kept = gpu.nvml_memory_bytes - gpu.total_memory_bytes

    assert 100 * MIB < kept < gpu.nvml_memory_bytes // 20


@each_row("part", SLICES, ids=by_name)
def test_a_slice_is_part_of_its_gpu(part: GPU) -> None:
    """Never more memory, SMs or bandwidth than the whole; the same capability."""
    whole = GPU.named(part.name.partition("-MIG-")[0])

    assert whole.compute_capability == part.compute_capability
    assert part.total_memory_bytes <= whole.total_memory_bytes
    assert (part.num_sms or 0) <= (whole.num_sms or 0)
    assert part.device_name == f"{whole.device_name} MIG {part.mig_profile}"


@pytest.mark.parametrize("name", ["A100-80GB", "A100-40GB", "A100-1g.10gb"])
def test_vllm_recognises_an_a100_by_its_device_name(name: str) -> None:
    """vLLM gives an A100 smaller defaults, by "a100" in the lower-cased name."""
    assert "a100" in GPU.named(name).device_name.lower()


def test_unified_memory_is_marked() -> None:
    """vLLM counts the operating system's available memory there."""
    assert ["GB10", "Thor", "AGXOrin-64GB"] == [
        gpu.name for gpu in catalogue() if gpu.is_integrated
    ]


def test_an_unknown_fact_has_no_source() -> None:
    """SMs of some slices are published nowhere."""
    part = GPU.named("B200-MIG-3g.90gb")

    assert (None, "") == (part.num_sms, part.source_of("num_sms"))


def test_search_finds_all_words_and_puts_beginnings_first() -> None:
    """As one types: "a10" begins A100 and A10; the RTX A1000 would come behind."""
    assert catalogue() == search("")
    assert ["RTX5070Ti"] == [gpu.name for gpu in search("5070 ti")]
    assert ["L40S", "L40", "L4"] == [gpu.name for gpu in search("l4")][:3]
    assert () == search("voodoo")
    generations = {gpu.compute_capability[0] for gpu in search("blackwell")}
    assert {10, 11, 12} == generations
    assert "L40S" in [gpu.name for gpu in search("Ada")]


@each_row("gpu", catalogue(), ids=by_name)
def test_each_gpu_is_one_line_of_a_list(gpu: GPU) -> None:
    """Columns stand below each other; what is not known is left empty."""
    line = gpu_line(gpu)

    assert gpu.name == line.split()[0]
    assert line.index("cc ") == gpu_line(GPU.named("H100")).index("cc ")
    assert line.endswith(gpu.total_basis)


def test_a_gpu_becomes_json_with_its_sources() -> None:
    """Facts keep their names; a value that JSON has no form for becomes a list."""
    told = json.loads(json.dumps(gpu_dict(GPU.named("H100"))))

    assert {fact.name for fact in fields(GPU)} == set(told)
    assert [9, 0] == told["compute_capability"]
    assert GPU.named("H100").source == told["sources"]["total_memory_bytes"]


def test_the_catalogue_is_read_when_first_asked_for() -> None:
    """Importing stays cheap: no file is opened by the import."""
    code = "from planner.engine import gpu; print(gpu.catalogue.cache_info().currsize)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert "0" == told.stdout.strip()


def test_the_file_holds_only_what_the_value_knows() -> None:
    """A fact that the code does not read would rot unseen."""
    table = json.loads((ROOT / "planner/data/gpus.json").read_text(encoding="utf-8"))
    used = {
        source
        for gpu in table["gpus"]
        for fact, source in gpu["sources"].items()
        if fact != "total_memory_bytes"
    }

    assert {fact for gpu in table["gpus"] for fact in gpu} <= {
        fact.name for fact in fields(GPU)
    }
    assert set(table["documents"]) == used


# --- Against what was measured -----------------------------------------------------


def measured_rows() -> list[dict[str, Any]]:
    """Read the published start-ups whose GPU is known."""
    return [row for row in read_records() if row["gpu"]]


def test_every_gpu_of_the_corpus_is_known() -> None:
    """A measured start-up can be planned."""
    assert all(GPU.named(row["gpu"]) for row in measured_rows())


def test_totals_agree_with_every_measured_start_up() -> None:
    """Within 1 %: drivers of different years keep different amounts."""
    apart = {
        row["id"]: row["total_gpu_gib"]
        for row in measured_rows()
        if row["total_gpu_gib"]
        and row["id"] not in (*WHOLE_CARD, *LESS_SHARED)
        and abs(
            GPU.named(row["gpu"]).total_memory_bytes / GIB / row["total_gpu_gib"] - 1
        )
        > 0.01
    }

    assert {} == apart


@pytest.mark.parametrize(
    "gpu", [gpu for gpu in catalogue() if "corpus record " in gpu.source], ids=by_name
)
def test_a_total_that_cites_the_corpus_stands_there(gpu: GPU) -> None:
    """The record exists and prints a total within 1 % of ours."""
    cited = gpu.source.partition("corpus record ")[2].split()[0].rstrip(";)")
    totals = {row["id"]: row["total_gpu_gib"] for row in read_records()}

    assert totals[cited] == pytest.approx(gpu.total_memory_bytes / GIB, rel=0.01)


@pytest.mark.parametrize("name", ANSWERED)
def test_facts_agree_with_the_conformance_cases(name: str) -> None:
    """SMs, capability and device name decide what vLLM's code answered there."""
    recorded = ANSWERED[name]
    gpu = GPU.named(name)

    assert tuple(recorded["compute_capability"]) == gpu.compute_capability
    assert recorded["num_sms"] == gpu.num_sms
    assert recorded["device_name"] == gpu.device_name
