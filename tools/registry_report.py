"""Count the names of vLLM's registry that the planner answers from class defaults.

Two steps, as the classes are where vLLM is installed:

    VLLM_ENVIRONMENT/bin/python tools/registry_report.py configs FOLDER
    .venv/bin/python -m tools.registry_report count FOLDER

The first writes FOLDER/NAME/config.json with the defaults of the configuration class of
each name, drafts apart; names whose class comes with a checkpoint have none. The second
plans each, and lists those without a plan with the planner's sentence.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_OWN = {
    "BagelForConditionalGeneration": "bagel",
    "ColQwen3": "colqwen3",
    "ColUltraVBertForRetrieval": "ultravbert",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "DeepseekVLV2ForCausalLM": "deepseek_vl_v2",
    "FlintForCausalLM": "flint",
    "FunAudioChatForConditionalGeneration": "funaudiochat",
    "InklingForCausalLM": "inkling_model",
    "InklingForConditionalGeneration": "inkling_mm_model",
    "KimiVLForConditionalGeneration": "kimi_vl",
    "Step3VLForConditionalGeneration": "step3_vl",
    "Step5ForCausalLM": "step5",
    "Step5ForConditionalGeneration": "step5_vl",
    "UltravoxModel": "ultravox",
}
"""Model types of names that neither library's tables lead to."""
_DRAFTS = "_SPECULATIVE_DECODING_MODELS"


def main() -> None:
    """Write configs, or count the plans of those in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("configs", "count"))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    {"configs": write_configs, "count": count}[given.step](given.folder)


def write_configs(folder: Path) -> None:
    """Write the config of each name whose class can be made without a checkpoint."""
    registry = import_module("vllm.model_executor.models.registry")
    drafts = getattr(registry, _DRAFTS)
    names = [name for name in registry.ModelRegistry.models if name not in drafts]
    types = _model_types()
    for name in names:
        config = _default(types.get(name, ""))
        if config is None:
            continue
        path = folder / name / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"dtype": "bfloat16", **config, "architectures": [name]}
        path.write_text(json.dumps(content, indent=1, default=str), encoding="utf-8")
    sys.stdout.write(f"{len(list(folder.iterdir()))} of {len(names)} names\n")


def _model_types() -> dict[str, str]:
    """Return a model type for each name in Transformers' tables, or in this file's."""
    modeling_auto = import_module("transformers.models.auto.modeling_auto")
    found: dict[str, str] = {}
    for table in dir(modeling_auto):
        if table.endswith("_MAPPING_NAMES"):
            for model_type, classes in getattr(modeling_auto, table).items():
                of = classes if isinstance(classes, (tuple, list)) else (classes,)
                found.update({str(each): model_type for each in of if each})
    return {**found, **_OWN}


def _default(model_type: str) -> dict[str, Any] | None:
    """Return the fields of a class's own defaults that are set, or None."""
    own = import_module("vllm.transformers_utils.config")
    mapping = import_module("transformers").CONFIG_MAPPING
    known = getattr(own, "_CONFIG_REGISTRY")  # noqa: B009 - it has no public name
    try:
        kind = (known if model_type in known else mapping)[model_type]
        fields: dict[str, Any] = kind().to_dict()
    except Exception:  # noqa: BLE001 - classes refuse in ways of their own
        return None
    fields.setdefault("model_type", model_type)
    return {key: value for key, value in fields.items() if value is not None}


def count(folder: Path) -> None:
    """Print how many configs have a plan, and what is said of the others."""
    names = sorted(path.parent.name for path in folder.glob("*/config.json"))
    said = dict(_without_plan(folder, names))
    lines = [f"{name}: {why}" for name, why in said.items()]
    total = f"{len(names) - len(said)} of {len(names)} have a plan"
    sys.stdout.write("\n".join([*lines, total]) + "\n")


def _without_plan(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    planner = import_module("planner")
    for name in names:
        try:
            plan = planner.plan(folder / name, gpu="H100", trust_remote_code=True)
        except planner.PlannerError as error:
            yield name, str(error)
            continue
        error_of_plan = plan.to_dict()["error"]
        if not plan.ranks and error_of_plan:
            yield name, error_of_plan["message"]


if __name__ == "__main__":
    main()
