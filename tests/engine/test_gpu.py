"""The GPU as a value, and the names it is found by."""

import difflib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.gpu import GPU, catalogue, names_of
from planner.errors import PlannerError
from planner.units import GIB
from tests.rows import each_row

PROMISED = [
    "H100",
    "H100-NVL",
    "H200",
    "H20",
    "B200",
    "B300",
    "A100",
    "A100-80GB",
    "A100-40GB",
    "A40",
    "A10G",
    "A5000",
    "A6000",
    "L4",
    "L40S",
    "T4",
    "V100-16GB",
    "V100-32GB",
    "RTX3090",
    "RTX4080",
    "RTX4090",
    "RTX5070Ti",
    "RTX5090",
    "RTXPRO6000",
    "GB10",
    "Thor",
]
"""Names that the public contract fixes."""


def own(**facts: Any) -> GPU:
    """A GPU that is in no catalogue."""
    known = {"total_memory_bytes": 80 * GIB, "compute_capability": (9, 0)}
    return GPU(**{"name": "mine", **known, **facts})


# --- Names -------------------------------------------------------------------------


@each_row("name", PROMISED)
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


@each_row("gpu", catalogue(), ids=lambda gpu: gpu.name)
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


def test_a_long_name_is_compared_by_its_beginning(monkeypatch) -> None:
    """Comparing takes the square of a name's length: seconds for 60,000 letters."""
    compared = []
    close = difflib.get_close_matches

    def spy(word: str, *given: Any, **named: Any) -> list[str]:
        compared.append(word)
        return close(word, *given, **named)

    monkeypatch.setattr(difflib, "get_close_matches", spy)
    with pytest.raises(PlannerError, match="Nearest: "):
        GPU.named("RTX 5099" + " of ours" * 8_000)

    assert [64] == [len(word) for word in compared]


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
        found: GPU | str = GPU.named(text)
    except PlannerError as error:
        found = str(error)

    assert found in catalogue() if isinstance(found, GPU) else repr(text) in found


# --- Replaced facts ----------------------------------------------------------------


def test_a_replaced_fact_leaves_the_others() -> None:
    """`named` is the catalogue entry with some facts replaced."""
    busy = GPU.named("H100", free_memory_bytes=40 * GIB)

    assert 40 * GIB == busy.free_memory_bytes
    assert GPU.named("H100") == replace(busy, free_memory_bytes=None)


def test_nvidia_smis_total_follows_a_replaced_total() -> None:
    """vLLM chooses defaults by nvidia-smi's total, which must not stay at 80 GB."""
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
    with pytest.raises(PlannerError, match=r"no fact 'memory'.*total_memory_bytes"):
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
        ({"dense_flops": 5}, "dense_flops=5: give operations per second by dtype"),
        ({"dense_flops": ("fp8",)}, r"dense_flops=\('fp8',\)"),
        ({"dense_flops": {"fp6": 1}}, "dense_flops has no dtype 'fp6'"),
        ({"dense_flops": {"fp8": 0.5}}, r"dense_flops\['fp8'\]=0.5"),
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
