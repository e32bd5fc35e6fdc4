"""Decision 3: Qwen3.5, and a score for each code of an answer."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.conversion import converted
from planner.models.families.facts import Facts
from planner.models.families.qwen3_5 import read_qwen3_5


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/d3.py`; `models/config.py`."""
    decision = facts.mapping("decision_config")
    if not decision:
        raise facts.unsupported("decision_config", "decision_config.json is needed.")
    if decision.get("attention_mode", "causal") != "causal":
        raise facts.unsupported("decision_config", "causal attention is.")
    labels = {str(index): code for index, code in enumerate(decision["codes"])}
    own = Facts({**facts.config, "id2label": labels}, facts.model_type)
    usual = label.of("Qwen3_5ForConditionalGeneration")
    return converted(read_qwen3_5(own, usual), own, label.architecture)


READERS = {"D3ForSequenceClassification": _read}
