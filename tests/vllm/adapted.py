"""Start vLLM with room for adapters and print the bytes of each of its tensors.

    python tests/vllm/adapted.py ENGINE_ARGUMENTS

Run by tests/vllm/test_lora.py in vLLM's own Python.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from vllm import LLM
from vllm.lora.layers.base import BaseLayerWithLoRA

SHARED = ("base_layer", "punica_wrapper")


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Return every tensor of an attribute."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def kept(worker: Any) -> dict[str, int]:
    """Return bytes by layer; views of a tensor counted before add nothing."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    runner = worker.model_runner
    owners = [
        (name, module)
        for name, module in runner.get_model().named_modules()
        if isinstance(module, BaseLayerWithLoRA)
    ]
    wrappers = runner.lora_manager._adapter_manager.punica_wrapper_mapping
    owners += [("punica_wrapper", wrapper) for wrapper in wrappers.values()]
    for name, owner in owners:
        for attribute, value in vars(owner).items():
            for tensor in tensors(value) if attribute not in SHARED else ():
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in seen:
                    seen.add(storage.data_ptr())
                    found[name] = found.get(name, 0) + storage.nbytes()
    return found


def main() -> None:
    """Start, ask, print one line."""
    engine = LLM(**json.loads(sys.argv[1]))
    (found,) = engine.collective_rpc(kept)
    sys.stdout.write("ADAPTERS " + json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
