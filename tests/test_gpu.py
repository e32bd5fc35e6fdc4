"""The GPU as a value, its names, and the figures of the catalogue."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlannerError
from planner.gpu import GPU, catalogue, names_of, search
from planner.units import GIB, MIB

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus" / "vllm-logs.jsonl"
ORACLE = ROOT.parent / "shared" / "tools" / "oracle" / "oracle_core.py"

PROMISED = (
    "H100 H100-NVL H200 H20 B200 B300 A100 A100-80GB A100-40GB A40 A10G A5000 A6000 "
    "L4 L40S T4 V100-16GB V100-32GB RTX3090 RTX4080 RTX4090 RTX5070Ti RTX5090 "
    "RTXPRO6000 GB10 Thor"
).split()
"""Names that the public contract fixes."""

WHOLE = [gpu for gpu in catalogue() if not gpu.mig_profile]
SLICES = [gpu for gpu in catalogue() if gpu.mig_profile]


def by_name(gpu: GPU) -> str:
    return gpu.name


def own(**facts: Any) -> GPU:
    """A GPU that is in no catalogue."""
    known = {"total_memory_bytes": 80 * GIB, "compute_capability": (9, 0)}
    return GPU(**{"name": "mine", **known, **facts})


# --- Names -------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_known(name: str) -> None:
    """What the contract names can be planned for."""
    assert GPU.named(name).total_memory_bytes > 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("h100-sxm", "H100"),
        ("RTX 4090", "RTX4090"),
        ("4090", "RTX4090"),
        ("geforce_rtx_5070_ti", "RTX5070Ti"),
        ("Tesla T4", "T4"),
        ("A100", "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000"),
        ("DGX Spark", "GB10"),
        ("Jetson AGX Thor", "Thor"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-MIG-1g.10gb"),
        ("a100 1g.5gb", "A100-40GB-MIG-1g.5gb"),
    ],
)
def test_a_gpu_is_found_by_any_of_its_names(name: str, expected: str) -> None:
    """Case, spaces, dashes and the maker's words do not matter."""
    assert expected == GPU.named(name).name


@pytest.mark.parametrize("gpu", catalogue(), ids=by_name)
def test_every_name_of_a_gpu_leads_to_it(gpu: GPU) -> None:
    """No alias or device name belongs to two entries."""
    assert {gpu.name} == {GPU.named(name).name for name in names_of(gpu)}


def test_a_memory_size_behind_the_name_must_fit() -> None:
    """The RTX 4080 has 16 GB; an RTX 3080 of 12 GB is another card than ours."""
    assert "RTX4080" == GPU.named("RTX 4080 16GB").name
    assert "H20" == GPU.named("h20 96 gb").name
    with pytest.raises(PlannerError, match="RTX 3080 12GB"):
        GPU.named("RTX 3080 12GB")


def test_an_unknown_name_is_answered_with_the_nearest_and_the_way_out() -> None:
    """The message names what was given, what is near, and how to give one's own."""
    with pytest.raises(PlannerError) as caught:
        GPU.named("RTX 5099")

    message = str(caught.value)
    assert "'RTX 5099'" in message
    assert "Nearest: RTX5090" in message
    assert "planner.GPU(name=..., total_memory_bytes=..." in message


def test_a_name_that_stands_for_several_offers_them() -> None:
    """There is no V100, only one of 16 and one of 32 GB."""
    with pytest.raises(PlannerError, match="Nearest: V100-32GB, V100-16GB"):
        GPU.named("V100")


@pytest.mark.parametrize("name", [None, 100, ""])
def test_what_is_no_name_is_refused(name: Any) -> None:
    """A wrong type is bad input, not a crash."""
    with pytest.raises(PlannerError):
        GPU.named(name)


@given(
    gpu=st.sampled_from(catalogue()),
    upper=st.booleans(),
    between=st.sampled_from(["", " ", "-", "_"]),
    before=st.sampled_from(["", "NVIDIA ", "nvidia-"]),
)
def test_spelling_never_changes_what_a_name_means(
    gpu: GPU, upper: bool, between: str, before: str
) -> None:
    """A law of the lookup, for every name in the catalogue."""
    name = before + gpu.name.replace("-", between)

    assert gpu is GPU.named(name.upper() if upper else name.lower())


@given(text=st.text(max_size=30))
def test_any_text_is_a_gpu_or_a_planner_error(text: str) -> None:
    """Names come from people and links: nothing else may escape."""
    try:
        assert GPU.named(text) in catalogue()
    except PlannerError as error:
        assert repr(text) in str(error)


# --- Replaced facts ----------------------------------------------------------------


def test_a_replaced_fact_leaves_the_others() -> None:
    """`named` is the catalogue entry with some facts replaced."""
    busy = GPU.named("H100", free_memory_bytes=40 * GIB)

    assert 40 * GIB == busy.free_memory_bytes
    assert GPU.named("H100") == replace(busy, free_memory_bytes=None)


def test_nvidia_smis_total_follows_a_replaced_total() -> None:
    """vLLM chooses defaults by nvidia-smi's total: 40 GiB must not stay an 80 GB one."""
    half = GPU.named("H100", total_memory_bytes=40 * GIB)

    assert (40 * GIB, None, "given") == (
        half.total_memory_bytes,
        half.nvml_memory_bytes,
        half.total_basis,
    )
    assert "H100" in half.source


def test_both_totals_can_be_given() -> None:
    """A driver tells both; neither overrules the other."""
    gpu = GPU.named("H100", total_memory_bytes=79 * GIB, nvml_memory_bytes=80 * GIB)

    assert (79 * GIB, 80 * GIB) == (gpu.total_memory_bytes, gpu.nvml_memory_bytes)


def test_an_unknown_fact_is_named() -> None:
    """A misspelt fact would else be a silent default."""
    with pytest.raises(PlannerError, match="no fact 'memory'.*total_memory_bytes"):
        GPU.named("H100", memory=80 * GIB)


# --- Figures that cannot be --------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"total_memory_bytes": 0}, "total_memory_bytes=0"),
        ({"total_memory_bytes": 80e9}, "total_memory_bytes=80000000000.0"),
        ({"total_memory_bytes": True}, "total_memory_bytes=True"),
        ({"total_memory_bytes": "80GiB"}, "total_memory_bytes='80GiB'"),
        ({"nvml_memory_bytes": -1}, "nvml_memory_bytes=-1"),
        ({"num_sms": 0}, "num_sms=0"),
        ({"free_memory_bytes": -1}, "free_memory_bytes=-1"),
        ({"free_memory_bytes": 81 * GIB}, "free_memory_bytes is 81.00 GiB"),
        ({"compute_capability": [9, 0]}, r"compute_capability=\[9, 0\]"),
        ({"compute_capability": (9,)}, "compute_capability="),
        ({"compute_capability": (-9, 0)}, "compute_capability="),
        ({"compute_capability": "9.0"}, "compute_capability='9.0'"),
    ],
)
def test_an_impossible_figure_is_named(facts: dict[str, Any], named: str) -> None:
    """The message says which fact, what was given and what is allowed."""
    with pytest.raises(PlannerError, match=named):
        own(**facts)


@given(total=st.integers(1, 1 << 42), free=st.integers(0, 1 << 42))
def test_free_memory_lies_between_nothing_and_all(total: int, free: int) -> None:
    """A law of the value: more free than there is cannot be."""
    if free > total:
        with pytest.raises(PlannerError, match="more than"):
            own(total_memory_bytes=total, free_memory_bytes=free)
    else:
        assert (
            free
            == own(total_memory_bytes=total, free_memory_bytes=free).free_memory_bytes
        )


# --- The catalogue -----------------------------------------------------------------


def test_the_catalogue_is_large_and_has_whole_gpus_first() -> None:
    """At least 40; slices stand behind the GPUs they are cut from."""
    assert len(catalogue()) >= 40
    assert [*WHOLE, *SLICES] == list(catalogue())


@pytest.mark.parametrize("gpu", catalogue(), ids=by_name)
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


@pytest.mark.parametrize(
    "gpu", [gpu for gpu in WHOLE if gpu.nvml_memory_bytes], ids=by_name
)
def test_the_runtime_reports_a_little_less_than_nvidia_smi(gpu: GPU) -> None:
    """The driver keeps some hundred MiB, never more than one twentieth."""
    assert gpu.nvml_memory_bytes is not None
    kept = gpu.nvml_memory_bytes - gpu.total_memory_bytes

    assert 100 * MIB < kept < gpu.nvml_memory_bytes // 20


@pytest.mark.parametrize("part", SLICES, ids=by_name)
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


def test_the_catalogue_is_read_when_first_asked_for() -> None:
    """Importing stays cheap: no file is opened by the import."""
    code = (
        "import sys, planner.gpu as g; print(g.catalogue.cache_info().currsize, "
        "'difflib' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert "0 False" == told.stdout.strip()


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

needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="the measured corpus is not beside the repository"
)


def measured_rows() -> list[dict[str, Any]]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines() if CORPUS.exists() else []
    return [row for row in map(json.loads, lines) if row["gpu"]]


@needs_corpus
def test_every_gpu_of_the_corpus_is_known() -> None:
    """A measured start-up can be planned."""
    assert all(GPU.named(row["gpu"]) for row in measured_rows())


@needs_corpus
def test_totals_agree_with_every_measured_start_up() -> None:
    """Within 1 %: drivers of different years keep different amounts."""
    apart = {
        row["id"]: row["total_gpu_gib"]
        for row in measured_rows()
        if row["total_gpu_gib"]
        and abs(
            GPU.named(row["gpu"]).total_memory_bytes / GIB / row["total_gpu_gib"] - 1
        )
        > 0.01
    }

    assert {} == apart


@needs_corpus
@pytest.mark.parametrize(
    "gpu", [gpu for gpu in catalogue() if "corpus record " in gpu.source], ids=by_name
)
def test_a_total_that_cites_the_corpus_stands_there(gpu: GPU) -> None:
    """The record exists and prints a total within 1 % of ours."""
    cited = gpu.source.partition("corpus record ")[2].split()[0].rstrip(";)")
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    totals = {row["id"]: row["total_gpu_gib"] for row in map(json.loads, lines)}

    assert totals[cited] == pytest.approx(gpu.total_memory_bytes / GIB, rel=0.01)


@pytest.mark.skipif(
    not ORACLE.exists(), reason="the oracle is not beside the repository"
)
@pytest.mark.parametrize(
    "name", "H100 H200 A100 L40S L4 RTX4090 A10G B200 RTXPRO6000".split()
)
def test_facts_agree_with_the_conformance_cases(name: str) -> None:
    """SMs, capability and device name decide what vLLM's code answered there."""
    text = ORACLE.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if f'    "{name}": ((' in line)
    gpu = GPU.named(name)

    assert f"({gpu.compute_capability}," in line
    assert f'{gpu.num_sms}, "{gpu.device_name}"' in line
