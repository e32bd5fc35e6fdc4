"""The one kernel of the app: this Python, whatever kernels the machine has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ipykernel
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

from planner.voila import provisioner

_ARGUMENTS = (
    # Kernels write nothing: no history of what was run, no profile of the user's.
    "--HistoryManager.enabled=False",
    "--InteractiveShell.cache_size=0",
)


class OneKernelSpec(KernelSpecManager):
    """Knows one kernel, by every name."""

    def find_kernel_specs(self) -> dict[str, str]:
        """Name the kernel."""
        return {"python3": str(Path(ipykernel.__file__).parent / "resources")}

    def get_kernel_spec(self, _kernel_name: str) -> Any:  # noqa: ANN401
        """Describe the kernel."""
        fork = {"kernel_provisioner": {"provisioner_name": provisioner.NAME}}
        return KernelSpec(
            argv=[
                sys.executable,
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
                *_ARGUMENTS,
            ],
            display_name="Python 3",
            language="python",
            metadata=fork if provisioner.is_available() else {},
        )

    def get_all_specs(self) -> dict[str, dict[str, Any]]:
        """List the kernel, as Voila asks for it."""
        spec = self.get_kernel_spec("python3").to_dict()
        return {name: {"spec": spec} for name in self.find_kernel_specs()}
