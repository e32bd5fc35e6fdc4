"""Which GPUs a CUDA program started now would see, by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Numbered(Protocol):
    """What CUDA_VISIBLE_DEVICES can name a GPU, or a slice of one, by."""

    @property
    def index(self) -> int:
        """NVML's number; of a slice, its GPU's."""

    @property
    def uuid(self) -> str:
        """Such as GPU-..., or MIG-... for a slice."""


Device = TypeVar("Device", bound=Numbered)


def visible(devices: Sequence[Device], setting: str | None) -> tuple[Device, ...]:
    """Return the devices that remain, in the order that CUDA numbers them.

    Entries are numbers or the beginning of a UUID. As in CUDA, the list ends at the
    first entry that names nothing; here also at one that names a device again. A
    number means a whole GPU, or its first slice where it is cut into slices.

    Args:
        devices: all of them, in NVML's order, which is that of the PCI bus. CUDA
            numbers alike only with equal GPUs or CUDA_DEVICE_ORDER=PCI_BUS_ID.
        setting: the variable's value; None where it is not set.

    Source: CUDA C++ Programming Guide, section "CUDA Environment Variables".
    """
    if setting is None:
        return tuple(devices)
    chosen: list[Device] = []
    for entry in setting.split(","):
        device = _named_by(entry.strip(), devices)
        if device is None or device in chosen:
            break
        chosen.append(device)
    return tuple(chosen)


def _named_by(entry: str, devices: Sequence[Device]) -> Device | None:
    """Return the device an entry names; None where there is none or no single one."""
    if entry.isdecimal():
        at_number = (device for device in devices if device.index == int(entry))
        return next(at_number, None)
    beginning = entry.lower()
    if not beginning.startswith(("gpu-", "mig-")):
        return None
    matching = [one for one in devices if one.uuid.lower().startswith(beginning)]
    return matching[0] if len(matching) == 1 else None
