"""What older releases of vLLM must not do on a GPU that is not there.

Each hook looks for what it changes, so that it does nothing in a release without it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from dry_hooks import after_import

_LEFT_OUT = re.compile(
    r"(^|\.)(gate|router|shared_expert_gate|lm_head)$|visual|vision|audio|projector"
)
"""Layers that checkpoints of GPTQ do not quantise."""


@after_import("vllm.distributed.device_communicators.custom_all_reduce")
def _all_reduce_in_graphs(module: Any) -> None:
    """Ranks do not exchange the addresses of captured buffers: no peer would answer.

    The exchange allocates nothing. It follows the capture of CUDA graphs, which 0.18 to
    0.19 try out in the profile run.
    """
    if hasattr(module.CustomAllreduce, "register_graph_buffers"):
        module.CustomAllreduce.register_graph_buffers = lambda _self: None


@after_import("torch.distributed._symmetric_memory")
def _symmetric_memory(module: Any) -> None:
    """Memory that ranks map into each other is refused, which vLLM does without.

    A rank waits for its peers' answers, and there are none. Its buffers are no tensors
    of PyTorch's allocator: they belong to the memory beside it.
    """

    def empty(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("a dry run has no symmetric memory")

    module.empty = empty


@after_import("vllm.model_executor.model_loader.dummy_loader")
def _loaded_weights(module: Any) -> None:
    """Finish what a model derives from its checkpoint's weights, which are not read.

    Source: vLLM 0.26.0 `models/deepseek_v4/nvidia/model.py` load_weights; 0.31.0 does
    it for any loader.
    """
    loader = module.DummyModelLoader
    load = loader.load_weights

    def load_weights(self: Any, model: Any, model_config: Any) -> None:
        load(self, model, model_config)
        for part in model.modules():
            if hasattr(part, "finalize_mhc_broadcast_weights"):
                part.finalize_mhc_broadcast_weights()

    loader.load_weights = load_weights


@after_import("vllm.distributed.device_communicators.flashinfer_all_reduce")
def _fused_all_reduce(module: Any) -> None:
    """FlashInfer's workspace of all-reduce is left out, without an error.

    It is memory of the driver, which ranks map into each other. vLLM does without where
    it cannot be created, but its log keeps that error, and with it all tensors of the
    first layer for good: as if a GPU with NVSwitch had none.

    Source: vLLM 0.33.0 `distributed/device_communicators/flashinfer_all_reduce.py`
    _create_workspace (warning_once remembers its arguments).
    """
    if hasattr(module, "_create_workspace"):
        module._create_workspace = lambda *_args, **_kwargs: None


@after_import("vllm.model_executor.layers.quantization.utils.gptq_utils")
def _gptq_layers(module: Any) -> None:
    """Without headers of weights, GPTQ's layers are those of the usual checkpoint.

    vLLM reads there which layers are quantised. It took all for others up to 0.25, and
    takes all for quantised in 0.33: the usual ones leave routers and encoders out.
    """
    read = module.is_layer_gptq_quantized

    def is_layer_gptq_quantized(
        prefix: str, quantized_layers: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if quantized_layers:
            return read(prefix, quantized_layers, *args, **kwargs)
        return _LEFT_OUT.search(prefix) is None

    module.is_layer_gptq_quantized = is_layer_gptq_quantized


def _without_headers(module: Any) -> None:
    """Headers for kernels that FlashInfer would compile are not downloaded.

    FlashInfer 0.6.6, of vLLM 0.19: its package of kernels does not hold them.
    """
    if hasattr(module, "download_trtllm_headers"):
        module.download_trtllm_headers = lambda *_args, **_kwargs: None


for _name in ("flashinfer.jit.fused_moe", "flashinfer.jit.gemm.core"):
    after_import(_name)(_without_headers)


@after_import("vllm.config.cache")
def _swap_space(module: Any) -> None:
    """This machine's memory does not limit the swap space of the one that is planned.

    Source: vLLM 0.12.0 `config/cache.py` CacheConfig.verify_with_parallel_config.
    """
    if hasattr(module, "get_cpu_memory"):
        module.get_cpu_memory = lambda: sys.maxsize


@after_import("vllm.transformers_utils.repo_utils")
def _modules_without_files(module: Any) -> None:
    """A missing configuration of a sentence-transformers module is empty.

    Newer releases read it so; older ones ask the Hub for a repository of the folder's
    name.

    Source: vLLM 0.12.0 and 0.22.0 `transformers_utils/config.py` get_pooling_config.
    """
    read = getattr(module, "get_hf_file_to_dict", None)
    if read is None:
        return

    def get_hf_file_to_dict(
        file_name: str, model: Any, *args: Any, **kwargs: Any
    ) -> Any:
        folder = Path(model)
        if "/" in file_name and folder.is_dir() and not (folder / file_name).exists():
            return {}
        return read(file_name, model, *args, **kwargs)

    module.get_hf_file_to_dict = get_hf_file_to_dict


@after_import("transformers.processing_utils")
def _tokenizers_that_were_made(module: Any) -> None:
    """Processors take the tokenizer that was made, whatever class they name.

    Source: Transformers 4.57.3 `processing_utils.py`
    ProcessorMixin.check_argument_for_proper_class.
    """
    mixin = module.ProcessorMixin
    checked = getattr(mixin, "check_argument_for_proper_class", None)
    if checked is None:
        return

    def check(self: Any, name: str, argument: Any) -> Any:
        return type(argument) if name == "tokenizer" else checked(self, name, argument)

    mixin.check_argument_for_proper_class = check
