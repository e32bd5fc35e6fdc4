"""Regenerate planner/data/model_types.txt: what vLLM reads without custom code.

Run it where vLLM is installed, for it asks vLLM's own table and Transformers':

    python tools/model_types.py > planner/data/model_types.txt
"""

from __future__ import annotations

import transformers
import vllm
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from vllm.transformers_utils.config import _CONFIG_REGISTRY


def main() -> None:
    """Print one model type a line, after a line that says where they come from."""
    print(f"# Transformers {transformers.__version__} and vLLM {vllm.__version__}")
    for name in sorted({*CONFIG_MAPPING_NAMES, *_CONFIG_REGISTRY}):
        print(name)


if __name__ == "__main__":
    main()
