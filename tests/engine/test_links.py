"""What joins GPUs: as servers usually have it, or as the user says."""

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.links import Link, link_of


@pytest.mark.parametrize(
    ("name", "link"),
    [
        *((name, Link.NVSWITCH) for name in ("H100", "H200", "B200", "GB200", "H20")),
        *((name, Link.NVLINK) for name in ("A100-80GB", "V100-32GB", "H100-NVL")),
        *((name, Link.PCIE) for name in ("H100-PCIe", "A100-80GB-PCIe", "L40S")),
        *((name, Link.PCIE) for name in ("RTX3090", "RTXPRO6000", "GB10")),
    ],
)
def test_a_gpu_is_joined_as_its_servers_usually_are(name: str, link: Link) -> None:
    """A name with PCIe has no NVLink, whatever its chip could do."""
    assert link is link_of(GPU.named(name))
    assert link_of(GPU.named(name), "NVLink") is Link.NVLINK


def test_nccls_buffers_follow_what_joins_the_gpus() -> None:
    """Two H100 without NVSwitch take the buffers of other wires."""
    start = planner.plan("Qwen/Qwen3-8B", gpu="H100", tensor_parallel_size=2)
    wired = start.changed(interconnect="PCIe")
    lines = [
        next(line for line in plan.ranks[0].lines if line.name == "non-torch")
        for plan in (start, wired)
    ]

    assert "NCCL, NVSwitch, two ranks" in lines[0].why
    assert "NCCL, other" in lines[1].why
    assert lines[1].size_bytes < lines[0].size_bytes
    assert "interconnect" not in wired.command()
    with pytest.raises(planner.PlannerError, match="NVSwitch"):
        start.changed(interconnect="copper")
