"""A GPU described in one line, from the command line to the exports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.gpu import FLOPS_DTYPES, GPU
from planner.engine.gpu_text import gpu_text, is_description
from planner.errors import PlannerError
from planner.units import GIB, MIB

LINE = (
    "name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s,"
    "bf16=180TFLOPS,fp8=360TFLOPS"
)
LOAD = planner.Load(prompt_tokens=2000, output_tokens=500, requests=4)


def test_a_line_describes_a_gpu():
    """48 GiB, 900 billion bytes and 180 trillion operations a second."""
    assert GPU.named(LINE) == GPU(
        name="MyGPU",
        total_memory_bytes=48 * GIB,
        compute_capability=(8, 9),
        memory_bandwidth_bytes_per_second=900 * 10**9,
    )
    assert GPU.named(LINE).dense_flops == (
        ("bfloat16", 180 * 10**12),
        ("fp8", 360 * 10**12),
    )


@pytest.mark.parametrize(
    "text",
    [
        "name:MyGPU, memory:48 GiB, capability:8.9",
        "NAME=MyGPU;Memory=49152MiB;capability=8.9",
        "memory=51539607552,name=MyGPU,capability=8.9",
    ],
)
def test_the_same_gpu_may_be_written_in_other_ways(text: str):
    """Other separators, units, orders and cases."""
    expected = GPU(name="MyGPU", total_memory_bytes=48 * GIB, compute_capability=(8, 9))
    assert GPU.named(text) == expected


def test_decimal_units_are_decimal():
    """48 GB are 44.7 GiB, and 3.35 TB/s 3,350 GB/s."""
    gpu = GPU.named("name=A,memory=48GB,capability=9.0,bandwidth=3.35TB/s")
    assert gpu.total_memory_bytes == 48 * 10**9
    assert gpu.memory_bandwidth_bytes_per_second == 3_350 * 10**9


@given(
    name=st.text("abcXYZ0129 -._", min_size=1, max_size=20).map(str.strip),
    memory=st.one_of(
        st.integers(1, 2**40), st.integers(1, 512).map(lambda gib: gib * GIB)
    ),
    capability=st.tuples(st.integers(1, 20), st.integers(0, 9)),
    bandwidth=st.none() | st.integers(1, 10**14),
    sms=st.none() | st.integers(1, 999),
    peaks=st.dictionaries(
        st.sampled_from(FLOPS_DTYPES), st.integers(1, 10**17), max_size=3
    ),
)
def test_what_is_written_is_read_back(name, memory, capability, bandwidth, sms, peaks):
    """Every fact that a line has, to the byte."""
    gpu = GPU(
        name=name or "A",
        total_memory_bytes=memory,
        compute_capability=capability,
        memory_bandwidth_bytes_per_second=bandwidth,
        num_sms=sms,
        dense_flops=peaks,
    )
    again = GPU.named(gpu_text(gpu))
    assert again == gpu
    assert again.dense_flops == gpu.dense_flops


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name=A,memory=48GiB", "'capability' is missing"),
        ("memory=48GiB,capability=8.9", "'name' is missing"),
        ("name=A,name=B", "'name' is given twice"),
        ("name=A,bf16=1TFLOPS,bfloat16=2TFLOPS", "'bfloat16' is given twice"),
        ("name=A,colour=red", "'colour' is not one of name, memory, capability"),
        ("name=A,memory", "'memory' is not of the form part=value"),
        ("name=A,capability=89", "is not a compute capability such as 8.9"),
        ("name=A,bandwidth=900", "needs a number and one of GB/s, MB/s, TB/s"),
        ("name=A,sms=many", "is not a whole number"),
        ("name=" + "A" * 129, "a name has 1 to 128 characters"),
        ("name=A," + "memory=48GiB," * 30, "at most 256 characters"),
    ],
)
def test_what_is_not_understood_is_named(text: str, reason: str):
    """With an example of the form."""
    with pytest.raises(PlannerError, match="Write it as name=MyGPU,memory=48GiB") as e:
        GPU.named(text)
    assert reason in str(e.value)


def test_an_impossible_figure_is_refused_as_elsewhere():
    """More free memory than there is."""
    with pytest.raises(PlannerError, match="more than total_memory_bytes"):
        GPU.named("name=A,memory=8GiB,capability=8.9,free=9GiB")


@pytest.mark.parametrize("text", ["H100", "RTX 4090", "attached", "", "A=B", "foo"])
def test_a_name_is_no_description(text: str):
    """Nor is any text with a sign in it."""
    assert not is_description(text)


def test_a_described_gpu_goes_through_plan_link_file_and_export():
    """The same plan comes back, peaks included, and the exports name it."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu=LINE, max_model_len=8192)
    assert plan.fits
    address = planner.export.link(plan)
    from_link = planner.export.read_link(address).inputs
    from_file = planner.export.read_yaml(planner.export.yaml(plan)).inputs
    for inputs in (from_link, from_file):
        assert inputs.gpu == plan.gpu
        assert inputs.gpu.dense_flops == plan.gpu.dense_flops
    assert "MyGPU" in planner.export.markdown(plan)
    facts = plan.to_dict()["gpu"]
    assert facts["memory_bandwidth_bytes_per_second"] == 900 * 10**9
    assert facts["dense_flops"]["bfloat16"] == 180 * 10**12


def test_a_link_may_hold_the_line_itself():
    """As somebody writes it by hand."""
    line = "name:MyGPU,memory:48GiB,capability:8.9"
    read = planner.export.read_link(f"?model=Qwen/Qwen3-8B&gpu={line}")
    assert not read.ignored
    assert read.inputs.gpu == GPU.named(line)


def test_a_plan_file_may_hold_the_line_itself():
    """In place of a name."""
    read = planner.export.read_yaml(f'model: Qwen/Qwen3-8B\ngpu: "{LINE}"\n')
    assert planner.plan("Qwen/Qwen3-8B", gpu=read.inputs.gpu).gpu == GPU.named(LINE)


def test_the_given_bandwidth_and_peak_bound_the_speed():
    """Twice the bandwidth halves the time in which a step reads its bytes."""
    slow, fast = (
        planner.speed_bound(
            planner.plan("Qwen/Qwen3-8B", gpu=LINE.replace("900GB", rate), load=LOAD)
        )
        for rate in ("450GB", "900GB")
    )
    assert slow.decode_at_least_seconds == pytest.approx(
        2 * fast.decode_at_least_seconds, rel=0.001
    )


def test_a_described_gpu_is_compared_with_known_ones():
    """Semicolons keep it in one piece among commas."""
    line = LINE.replace(",", ";")
    plan = planner.plan("Qwen/Qwen3-8B", load=LOAD)
    found = planner.compare_gpus(plan, f"L4,{line}".split(","))
    assert {choice.gpu.name for choice in found.choices} == {"L4", "MyGPU"}


def test_a_size_with_odd_bytes_is_written_in_bytes():
    """Nothing is rounded."""
    gpu = GPU(name="A", total_memory_bytes=3 * MIB + 1, compute_capability=(8, 0))
    assert gpu_text(gpu) == "name=A,memory=3145729B,capability=8.0"
