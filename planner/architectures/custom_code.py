"""Models whose configuration class comes with the model, not with vLLM.

Source: vLLM 0.33.0 `transformers_utils/config.py` (its own configuration classes);
Transformers `dynamic_module_utils.py` resolve_trust_remote_code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.errors import Refused


def check_custom_code(
    name: str, config: Mapping[str, Any], *, is_trusted: bool
) -> None:
    """Refuse a model that needs code of its own which the user has not allowed.

    Raises:
        Refused: in the words that vLLM passes on from Transformers.
    """
    auto_map = config.get("auto_map")
    has_code = isinstance(auto_map, Mapping) and "AutoConfig" in auto_map
    if is_trusted or not has_code:
        return
    if str(config.get("model_type")) in known_model_types():
        return
    raise Refused(
        f"The repository {name} contains custom code which must be executed to "
        "correctly load the model. You can inspect the repository content at "
        f"https://hf.co/{name} .\nPlease pass the argument `trust_remote_code=True` to "
        "allow custom code to be run."
    )


@cache
def known_model_types() -> frozenset[str]:
    """Model types for which vLLM or Transformers has a configuration class."""
    path = Path(__file__).parent.parent / "data" / "model_types.txt"
    lines = path.read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
