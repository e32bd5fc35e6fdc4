"""Regenerate planner/data/model_types.txt: what vLLM reads without custom code.

Run it where vLLM is installed, for it asks vLLM's own table and Transformers':

    python tools/model_types.py > planner/data/model_types.txt

With --classes it writes planner/data/transformers_architectures.txt instead: the model
classes of Transformers that vLLM's registry does not name, and whose attention vLLM can
replace.
"""

from __future__ import annotations

import re
import sys

import transformers
import vllm
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from vllm.transformers_utils.config import _CONFIG_REGISTRY

_MODEL = re.compile(r"\w+(?:Model|For[A-Z]\w+|WithLMHead)\Z")
_NOT_A_MODEL = re.compile(r"Auto\w*|\w*PreTrainedModel\Z|\w*Tokenizer\w*")


def main() -> None:
    """Print one model type a line, after a line that says where they come from."""
    print(f"# Transformers {transformers.__version__} and vLLM {vllm.__version__}")
    for name in sorted({*CONFIG_MAPPING_NAMES, *_CONFIG_REGISTRY}):
        print(name)


def classes() -> None:
    """Print one model class a line."""
    from vllm.model_executor.models.registry import _VLLM_MODELS  # noqa: PLC0415 - heavy

    print(
        f"# Model classes of Transformers {transformers.__version__} that vLLM "
        f"{vllm.__version__} does not name itself, and\n"
        "# whose attention it can replace (is_backend_compatible, "
        "_can_set_attn_implementation)"
    )
    for name in sorted({*dir(transformers)} - {*_VLLM_MODELS}):
        if _MODEL.match(name) and not _NOT_A_MODEL.match(name) and _is_served(name):
            print(name)


def _is_served(name: str) -> bool:
    """Whether vLLM can put its own attention into a class of Transformers."""
    try:
        model = getattr(transformers, name)
        served = model.is_backend_compatible() or model._can_set_attn_implementation()
    except Exception:  # noqa: BLE001 - a class that cannot be imported here
        return False
    return bool(served)


if __name__ == "__main__":
    if "--classes" in sys.argv:
        classes()
    else:
        main()
