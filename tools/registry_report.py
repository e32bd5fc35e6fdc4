"""Count the names of vLLM's registry that the planner answers from class defaults.

Two steps, as the classes are where vLLM is installed:

    VLLM_ENVIRONMENT/bin/python tools/registry_report.py configs FOLDER
    .venv/bin/python -m tools.registry_report count FOLDER [MORE ...]

The first writes FOLDER/NAME/config.json with the defaults of the configuration class of
each name, drafts apart, and FOLDER/NAMES.txt; names whose class comes with a checkpoint
have no config. The second plans each. A name without a class, or whose defaults leave
out what vLLM's class needs, is planned from a config that the tests keep, or from that
of a name whose fields vLLM's class reads too. MORE are folders with a config.json in a
folder for each model. Listed are the counts by where the config is from, and the names
without a plan with the planner's sentence.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent.parent / "tests" / "data"
_OWN = {
    "Alpamayo2Super": "alpamayo2_super",
    "BagelForConditionalGeneration": "bagel",
    "BailingMoeV3VLForConditionalGeneration": "bailing_moe_v3_vl",
    "ChatGLMForConditionalGeneration": "chatglm",
    "ChatGLMModel": "chatglm",
    "ColQwen3": "colqwen3",
    "ColUltraVBertForRetrieval": "ultravbert",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "DeepseekVLV2ForCausalLM": "deepseek_vl_v2",
    "DoryForCausalLM": "dory",
    "Dots3NoteForCausalLM": "dots3_note",
    "FlintForCausalLM": "flint",
    "FunAudioChatForConditionalGeneration": "funaudiochat",
    "InklingForCausalLM": "inkling_model",
    "InklingForConditionalGeneration": "inkling_mm_model",
    "HfMoondream": "moondream3",
    "IsaacForConditionalGeneration": "isaac",
    "KimiK25ForConditionalGeneration": "kimi_k25",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "KimiVLForConditionalGeneration": "kimi_vl",
    "MiDashengLMModel": "midashenglm",
    "Moondream3ForCausalLM": "moondream3",
    "OpenVLAForActionPrediction": "openvla",
    "OpsColQwen3Model": "ops_colqwen3",
    "Ovis": "ovis",
    "Qwen3ASRRealtimeGeneration": "qwen3_asr",
    "Qwen3VLNemotronEmbedModel": "qwen3_vl_nemotron_embed",
    "Step3TextForCausalLM": "step3_text",
    "Step3VLForConditionalGeneration": "step3_vl",
    "Step3p5ForCausalLM": "step3p5",
    "Step5ForCausalLM": "step5",
    "Step5ForConditionalGeneration": "step5_vl",
    "UltravoxModel": "ultravox",
    "UnlimitedOCRForCausalLM": "unlimited_ocr",
}
"""Model types of names that neither library's tables lead to."""
_LIKE = {
    "BertSpladeSparseEmbeddingModel": "BertModel",
    "BgeM3EmbeddingModel": "XLMRobertaModel",
    "ChatGLMForConditionalGeneration": "ChatGLMModel",
    "ColBERTJinaRobertaModel": "XLMRobertaModel",
    "ColBERTModernBertModel": "ModernBertModel",
    "ExaoneMoEForCausalLM": "ExaoneMoeForCausalLM",
    "Glm5NextForCausalLM": "Glm5NextForConditionalGeneration",
    "H2OVLChatModel": "InternVLChatModel",
    "IQuestCoderForCausalLM": "LlamaForCausalLM",
    "InternLM2ForRewardModel": "InternLM2ForCausalLM",
    "InternLM3ForCausalLM": "LlamaForCausalLM",
    "LLaMAForCausalLM": "LlamaForCausalLM",
    "KeyeVL1_5ForConditionalGeneration": "KeyeForConditionalGeneration",
    "LlamaBidirectionalForSequenceClassification": "LlamaForCausalLM",
    "LlamaBidirectionalModel": "LlamaForCausalLM",
    "LlamaNemotronVLForSequenceClassification": "LlamaNemotronVLModel",
    "MiniMaxM3SparseForCausalLM": "MiniMaxM3SparseForConditionalGeneration",
    "MistralLarge3ForCausalLM": "DeepseekV3ForCausalLM",
    "MuseGlimmerForCausalLM": "MuseGlimmerForConditionalGeneration",
    "NVLM_D": "InternVLChatModel",
    "NemotronH_Nano_VL_V2": "NemotronH_Nano_Omni_Reasoning_V3",
    "NemotronH_Omni_Reasoning_V3": "NemotronH_Nano_Omni_Reasoning_V3",
    "NemotronH_Super_Omni_Reasoning_V3": "NemotronH_Nano_Omni_Reasoning_V3",
    "OpsColQwen3Model": "Qwen3VLForConditionalGeneration",
    "OrionForCausalLM": "LlamaForCausalLM",
    "PanguEmbeddedForCausalLM": "LlamaForCausalLM",
    "PanguUltraMoEForCausalLM": "DeepseekV3ForCausalLM",
    "Qwen2ForProcessRewardModel": "Qwen2ForCausalLM",
    "Qwen2ForRewardModel": "Qwen2ForCausalLM",
    "Qwen2_5OmniModel": "Qwen2_5OmniForConditionalGeneration",
    "Qwen3VLNemotronEmbedModel": "Qwen3VLForConditionalGeneration",
    "SarvamMLAForCausalLM": "DeepseekV3ForCausalLM",
    "SkyworkR1VChatModel": "InternVLChatModel",
    "SolarForCausalLM": "LlamaForCausalLM",
    "TeleChat3ForCausalLM": "LlamaForCausalLM",
    "TeleFLMForCausalLM": "LlamaForCausalLM",
    "VoyageQwen3BidirectionalEmbedModel": "Qwen3ForCausalLM",
}
"""Names whose config is nowhere, and the name whose config has the fields they need."""
_DRAFTS = "_SPECULATIVE_DECODING_MODELS"
_NAMES = "NAMES.txt"
_SOURCES = ("class defaults", "a known config", "the config of a like name")

_Files = dict[str, Any]


def main() -> None:
    """Write configs, or count the plans of those in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("configs", "count"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("more", type=Path, nargs="*")
    given = parser.parse_args()
    if given.step == "configs":
        write_configs(given.folder)
    else:
        count(given.folder, given.more)


def write_configs(folder: Path) -> None:
    """Write the config of each name whose class can be made without a checkpoint."""
    registry = import_module("vllm.model_executor.models.registry")
    drafts = getattr(registry, _DRAFTS)
    names = [
        name
        for name in registry.ModelRegistry.models
        if name not in drafts and not name.endswith("MTP")
    ]
    types = _model_types()
    for name in names:
        config = _default(types.get(name, ""))
        if config is None:
            continue
        path = folder / name / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"dtype": "bfloat16", **config, "architectures": [name]}
        path.write_text(json.dumps(content, indent=1, default=str), encoding="utf-8")
    (folder / _NAMES).write_text("\n".join(names) + "\n", encoding="utf-8")
    found = len(list(folder.glob("*/config.json")))
    sys.stdout.write(f"{found} of {len(names)} names\n")


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


def count(folder: Path, more: Iterable[Path] = ()) -> None:
    """Print how many names have a plan, from which config, and why others have none."""
    names = (folder / _NAMES).read_text(encoding="utf-8").split()
    kept = _kept_configs(more)
    counts, reasons = dict.fromkeys(_SOURCES, 0), []
    for name in names:
        answers = dict(_answers(name, folder, kept))
        source = next((key for key, error in answers.items() if error is None), None)
        if source is not None:
            counts[source] += 1
        else:
            error = next(iter(answers.values()), "no config of it is at hand")
            reasons.append(f"{name}: {error}")
    by_source = ", ".join(f"{number} from {key}" for key, number in counts.items())
    total = f"{sum(counts.values())} of {len(names)} have a plan: {by_source}"
    sys.stdout.write("\n".join([*reasons, total]) + "\n")


def _answers(
    name: str, folder: Path, kept: dict[str, list[_Files]]
) -> Iterator[tuple[str, str | None]]:
    """Plan from one config after another, until one has a plan."""
    like = _LIKE.get(name, "")
    of_class, of_like = _of_class(folder, name), _of_class(folder, like)
    found = (
        *((_SOURCES[0], files) for files in of_class),
        *((_SOURCES[1], files) for files in kept.get(name, ())),
        *((_SOURCES[2], _renamed(files, name)) for files in of_like),
        *((_SOURCES[2], _renamed(files, name)) for files in kept.get(like, ())),
    )
    for source, files in found:
        error = _error_of(files)
        yield source, error
        if error is None:
            return


def _of_class(folder: Path, name: str) -> Iterator[_Files]:
    path = folder / name / "config.json"
    if name and path.exists():
        yield {"config.json": json.loads(path.read_text(encoding="utf-8"))}


def _kept_configs(more: Iterable[Path]) -> dict[str, list[_Files]]:
    """Return the files of each model that the tests or a folder keep, by name."""
    packed = (
        *sorted(_DATA.glob("registry*.jsonl.xz")),
        _DATA / "configs/files.jsonl.xz",
    )
    rows = [
        json.loads(line)
        for file in packed
        for line in lzma.decompress(file.read_bytes()).decode().splitlines()
    ]
    paths = [path for folder in more for path in sorted(folder.glob("*/config.json"))]
    rows += [{"config": json.loads(path.read_text(encoding="utf-8"))} for path in paths]
    found: dict[str, list[_Files]] = {}
    for row in rows:
        own = {"config.json": row["config"]} if row.get("config") else {}
        files = {**own, **row.get("files", {})}
        config = files.get("config.json") or {}
        for name in config.get("architectures") or ():
            found.setdefault(name, []).append(files)
    return found


def _renamed(files: _Files, name: str) -> _Files:
    """Return the files under another name; of a model of text, its inner config."""
    config = {**files["config.json"]}
    inner = config.get("text_config")
    if isinstance(inner, dict) and name.endswith("ForCausalLM"):
        config = {"dtype": "bfloat16", **inner}
    return {**files, "config.json": {**config, "architectures": [name]}}


def _error_of(files: _Files) -> str | None:
    """Plan these files; return what is said where there is no plan."""
    planner = import_module("planner")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
        try:
            plan = planner.plan(folder, gpu="H100", trust_remote_code=True)
        except planner.PlannerError as error:
            return str(error)
        error_of_plan = plan.to_dict()["error"]
        if plan.ranks or not error_of_plan:
            return None
        return str(error_of_plan["message"])


if __name__ == "__main__":
    main()
