"""Starts vLLM with a draft in this process and says what it holds; no test.

Run by vLLM's own Python: `drafted.py TARGET SPECULATIVE_CONFIG KV_CACHE_BYTES`.
"""

import json
import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

from vllm import LLM
from vllm.model_executor.model_loader import utils

_HELD: dict = {}


def tensors(model) -> dict:
    """Return each tensor of a model by its name, before the kernels repack it."""
    found = dict(model.named_parameters(remove_duplicate=False))
    found.update(model.named_buffers(remove_duplicate=False))
    return {
        name: (tensor.data_ptr(), tensor.numel() * tensor.element_size())
        for name, tensor in found.items()
    }


def _keeping(original):
    def process(model, *rest, **named):
        _HELD[id(model)] = tensors(model)
        return original(model, *rest, **named)

    return process


def main() -> None:
    """Print the bytes of target and draft, blocks and groups as JSON."""
    from vllm.model_executor.model_loader import base_loader

    base_loader.process_weights_after_loading = _keeping(
        utils.process_weights_after_loading
    )
    target, config, kv_bytes = sys.argv[1:]
    llm = LLM(
        target,
        speculative_config=json.loads(config),
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="float32",
        enforce_eager=True,
        gpu_memory_utilization=0.2,
        max_model_len=1024,
        max_num_seqs=8,
        kv_cache_memory_bytes=int(kv_bytes),
    )
    worker = llm.llm_engine.model_executor.driver_worker.worker
    runner = worker.model_runner
    own = runner.get_model()
    draft = runner.drafter.model
    # What the draft took from its target is a module of both by now.
    shared = {id(module) for module in own.modules()}
    kept = {}
    for name, (place, size) in _HELD[id(draft)].items():
        path = name.rpartition(".")[0]
        try:
            module = draft.get_submodule(path)
        except AttributeError:
            continue
        if id(module) not in shared:
            kept[place] = size
    cache = runner.kv_cache_config
    answer = {
        "draft": sum(kept.values()),
        "num_blocks": cache.num_blocks,
        "groups": [
            [
                type(group.kv_cache_spec).__name__,
                len(group.layer_names),
                group.kv_cache_spec.block_size,
                group.kv_cache_spec.page_size_bytes,
            ]
            for group in cache.kv_cache_groups
        ],
    }
    sys.stdout.write("@drafted " + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
