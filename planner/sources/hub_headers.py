"""Asks the Hub for the headers of a model's safetensors files, in few requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING

from planner.sources.hub_errors import Asked
from planner.sources.safetensors import INDEX, SINGLE, TensorFacts

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.utils._safetensors import SafetensorsFileMetadata

_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_PARALLEL_REQUESTS = 8


def read(api: HfApi, asked: Asked, commit: str, files: Iterable[str]) -> TensorFacts:
    """Return what the headers say; nothing where the model has no safetensors.

    The first 100 kB of a file nearly always hold its header; no weights are read.
    """
    names = set(files)
    if SINGLE in names:
        shards = [SINGLE]
    else:
        shards = sorted(name for name in names if _SHARD.fullmatch(name))
    if not shards:
        return TensorFacts()
    headers = None
    if INDEX in names and len(shards) > 1 and asked.revision is None:
        headers = _all_at_once(api, asked)
    return _facts(headers or _one_by_one(api, asked, commit, shards))


def _all_at_once(api: HfApi, asked: Asked) -> Iterable[SafetensorsFileMetadata] | None:
    """Ask for every shard in one request, which the Hub answers and mirrors may not."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - lazy

    try:
        repo = api.get_sharded_safetensors_metadata(asked.repo_id)
    except (AttributeError, HfHubHTTPError, KeyError, ValueError):
        return None
    return repo.files_metadata.values()


def _one_by_one(
    api: HfApi, asked: Asked, commit: str, shards: list[str]
) -> Iterable[SafetensorsFileMetadata]:
    def ask(shard: str) -> SafetensorsFileMetadata:
        return api.parse_safetensors_file_metadata(
            asked.repo_id, shard, revision=commit
        )

    # What bounds this thread's requests bounds those of its helpers.
    contexts = [copy_context() for _ in shards]
    with ThreadPoolExecutor(max_workers=_PARALLEL_REQUESTS) as pool:
        return list(pool.map(lambda own, shard: own.run(ask, shard), contexts, shards))


def _facts(headers: Iterable[SafetensorsFileMetadata]) -> TensorFacts:
    shapes: Mapping[str, tuple[str, tuple[int, ...]]] = {
        name: (str(tensor.dtype), tuple(tensor.shape))
        for header in headers
        for name, tensor in header.tensors.items()
    }
    return TensorFacts.of(shapes)
