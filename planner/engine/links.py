"""What joins the GPUs of a machine: known from the GPU, or said by the user."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER

if TYPE_CHECKING:
    from planner.engine.gpu import GPU


class Link(StrEnum):
    """How GPUs of one machine reach each other."""

    NVSWITCH = "NVSwitch"
    """All of them at the full rate of NVLink."""
    NVLINK = "NVLink"
    """Wires or bridges between some of them."""
    PCIE = "PCIe"


_WIRED = ("A100", "A800", "V100", "GH200")
"""Boards with NVLink on them, unless the name says PCIe."""
_BRIDGED = ("NVL",)
"""At the end of a name: pairs of cards with a bridge."""


def link_of(gpu: GPU, given: str | None = None) -> Link:
    """Return what joins the GPUs of a machine: as given, else as the GPU usually has.

    >>> from planner.engine.gpu import GPU
    >>> [str(link_of(GPU.named(name))) for name in ("H100", "A100-80GB", "RTX3090")]
    ['NVSwitch', 'NVLink', 'PCIe']

    Slices of a GPU reach each other over PCIe alone.

    Source: NVIDIA's product briefs; servers of Hopper and datacenter Blackwell join
    their boards by NVSwitch. NVIDIA's MIG User Guide, application considerations: no
    peer-to-peer, over PCIe or NVLink, between instances.
    """
    if given is not None:
        return Link(given)
    name = gpu.name
    if "PCIe" in name or gpu.is_integrated or gpu.mig_profile:
        return Link.PCIE
    if name.endswith(_BRIDGED) or name.startswith(_WIRED):
        return Link.NVLINK
    has_switch = gpu.compute_capability[0] in (HOPPER.major, DATACENTER_BLACKWELL.major)
    return Link.NVSWITCH if has_switch else Link.PCIE


def slow_link(gpu: GPU, ranks: int, given: str | None) -> str:
    """Say that PCIe joins ranks of tensor parallel; empty where it does not."""
    if ranks == 1 or gpu.is_cpu or link_of(gpu, given) is not Link.PCIE:
        return ""
    usual = "" if given else " Where bridges join them, say interconnect=NVLink."
    return (
        f"{ranks} x {gpu.name} add up their results over PCIe at every layer: that "
        f"costs speed, not memory; pipeline parallel sends less.{usual}"
    )
