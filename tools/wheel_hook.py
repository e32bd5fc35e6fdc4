"""Hatchling runs this while it builds a wheel: the package gets its installed names.

`vllm_memory_planner.py` becomes `planner.py`, so that `import planner` is the same
package where no other of that name is installed. An editable installation has the names
of the checkout.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.wheel_names import FOLDER, INSTALLED, write  # noqa: E402


class WheelNames(BuildHookInterface[Any]):
    """Gives a wheel its files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files as they are installed, and add them."""
        self._made = Path(tempfile.mkdtemp())
        if version == "editable":
            return
        write(ROOT / FOLDER, self._made)
        added: dict[str, str] = build_data["force_include"]
        added |= {str(path): path.name for path in self._made.iterdir()}
        added[str(ROOT / f"{INSTALLED}.py")] = f"{FOLDER}.py"

    def finalize(self, *_given: object) -> None:
        """Remove what was written for the wheel."""
        shutil.rmtree(self._made)
