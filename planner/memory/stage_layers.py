"""Which layers a pipeline stage holds, a draft's with its target's last ones."""

from __future__ import annotations

from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout


def stage_layers(model: ModelArchitecture, layout: ParallelLayout) -> tuple[range, ...]:
    """Return the indices of each stage's layers.

    A draft lies on the last stage alone, and its layers follow the target's.

    Raises:
        Refused: when VLLM_PP_LAYER_PARTITION does not fit the model.

    Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` GPUModelRunner (speculator);
    0.18.0 `v1/worker/gpu_model_runner.py` the same (drafter).
    """
    draft = None if model.speculation is None else model.speculation.draft
    extra = 0 if draft is None else draft.num_hidden_layers
    stages, begin = [], 0
    for size in layout.stage_sizes(model.num_hidden_layers):
        stages.append(range(begin, begin + size))
        begin += size
    stages[-1] = range(stages[-1].start, begin + extra)
    return tuple(stages)
