"""The folder of the data that comes with the planner: models, GPUs, releases, words."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent
"""The folder of the data files."""
