"""Folders with nothing but a config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def written(folder: Path, config: dict[str, Any]) -> Path:
    """Write a config.json into a folder and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder
