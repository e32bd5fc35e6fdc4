"""Headers of safetensors files, on disk and on the Hub: types and shapes, no weights.

A file begins with the length of its header (8 bytes, little-endian) and the header in
JSON: name to dtype, shape and place. From the Hub they are read in few requests.

Source: the safetensors format description.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from functools import partial
from math import prod
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.models.sources.concurrently import concurrently
from planner.models.sources.hub_errors import HubQuery
from planner.user_files import check_values, opened
from planner.values import frozen

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.utils._safetensors import SafetensorsFileMetadata

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_PREFIX_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""Source: safetensors `MAX_HEADER_SIZE`; a longer one is a damaged file."""
MOST_HEADER_BYTES, MOST_HEADER_VALUES = 32 << 20, 1_500_000
"""The largest published header has 10 MB, of 100,000 tensors with nine values each."""
_FIRST_BYTES = 100_000
"""Of a file on the Hub; they nearly always hold its header."""
_MOST_TENSORS = 250_000
"""Of all files; the largest published model has 210,000."""

_MOST_DIMS, _MOST_ELEMENTS = 64, (1 << 63) - 1
"""Source: PyTorch 2.9 `c10/core/TensorImpl.h`: 64 dimensions, counts of int64_t."""

_LFS_POINTER = b"version "
"""How a Git LFS pointer begins: the clone has no weights yet."""

_DTYPE_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}

_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


@frozen
class TensorFacts:
    """The tensors of a checkpoint, by the headers of all its files."""

    shapes: Shapes = field(default_factory=dict)
    """Name to dtype and shape."""
    num_parameters_by_dtype: Mapping[str, int] = field(default_factory=dict)
    checkpoint_bytes: int | None = None
    """None where a dtype's width is not known."""

    @classmethod
    def of(cls, shapes: Shapes) -> TensorFacts:
        """Count the elements and bytes of these tensors."""
        elements: Counter[str] = Counter()
        for dtype, shape in shapes.values():
            elements[dtype] += prod(shape)
        return cls(
            shapes=shapes,
            num_parameters_by_dtype=dict(elements),
            checkpoint_bytes=_bytes(elements),
        )


def _bytes(elements: Mapping[str, int]) -> int | None:
    if not elements or not elements.keys() <= _DTYPE_BITS.keys():
        return None
    return sum(count * _DTYPE_BITS[dtype] for dtype, count in elements.items()) // 8


def read_headers(paths: Iterable[Path]) -> TensorFacts:
    """Return the tensors in the files' headers; none where the weights are missing.

    Raises:
        PlannerError: for a file whose header cannot be read, or too many tensors.
    """
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
    for path in paths:
        found = _shapes_in(path)
        if found is None:
            return TensorFacts()
        shapes.update(found)
        if len(shapes) > _MOST_TENSORS:
            raise PlannerError(
                f"The safetensors files in {path.parent} have more than "
                f"{_MOST_TENSORS:,} tensors, the most that is read. Plan from the "
                "config.json alone by moving it to a separate folder."
            )
    return TensorFacts.of(shapes)


def _shapes_in(path: Path) -> Shapes | None:
    header = _header(path)
    return None if header is None else shapes_of(header, str(path))


def shapes_of(header: Mapping[str, Any], where: str) -> Shapes:
    """Return dtype and shape of each tensor in a decoded header.

    Raises:
        PlannerError: when the header lacks them.
    """
    try:
        return {
            name: (intern(str(tensor["dtype"])), _shape(tensor["shape"]))
            for name, tensor in header.items()
            if name != "__metadata__"
        }
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, "its header lacks dtypes or shapes") from error


def _shape(given: Any) -> tuple[int, ...]:  # noqa: ANN401 - whatever a header has
    """Return a tensor's shape.

    Raises:
        ValueError: where no tensor can have it.
    """
    shape = tuple(given)
    for size in shape:
        if type(size) is not int or size < 0:
            raise ValueError(shape)
    if len(shape) > _MOST_DIMS or prod(shape) > _MOST_ELEMENTS:
        raise ValueError(shape)
    return shape


def _header(path: Path) -> Mapping[str, Any] | None:
    with opened(path) as file:
        prefix = file.read(_PREFIX_BYTES)
        if prefix == _LFS_POINTER:
            return None
        length = int.from_bytes(prefix, "little")
        if len(prefix) < _PREFIX_BYTES or length > _MAX_HEADER_BYTES:
            raise _damaged(str(path), "it does not begin with a header")
        if length > MOST_HEADER_BYTES:
            raise PlannerError(
                f"{path}: its header has more than {MOST_HEADER_BYTES >> 20} MiB, the "
                "most that is read. Plan from its config.json alone by moving that "
                "file to a separate folder."
            )
        text = file.read(length)
    if len(text) < length:
        raise _damaged(
            str(path), f"its header ends after {len(text)} of {length} bytes"
        )
    return _decoded(text, str(path))


def _decoded(text: bytes, where: str) -> Mapping[str, Any]:
    check_values(text, where, MOST_HEADER_VALUES)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(where, "its header is not a JSON object")
    return header


def _damaged(where: str, why: str) -> PlannerError:
    return PlannerError(
        f"{where} is not a whole safetensors file: {why}. Download it again, or plan "
        "from its config.json alone by moving that file to a separate folder."
    )


def shards_of(files: Iterable[str]) -> list[str]:
    """Return the files of weights among those of a repository."""
    names = set(files)
    if SINGLE in names:
        return [SINGLE]
    return sorted(name for name in names if _SHARD.fullmatch(name))


def shapes_in_parts(part: Callable[[int, int], bytes], where: str) -> Shapes:
    """Return dtype and shape of each tensor of a file of which parts are requested.

    Args:
        part: returns so many bytes (second) from one on (first).
        where: the file, for the sentence.

    Raises:
        PlannerError: where it does not begin with a header, or with too long a one.
    """
    text = part(0, _FIRST_BYTES)
    length = int.from_bytes(text[:_PREFIX_BYTES], "little")
    if length > MOST_HEADER_BYTES:
        raise _damaged(where, "it does not begin with a header")
    text = text[_PREFIX_BYTES : _PREFIX_BYTES + length]
    if len(text) < length:
        text = part(_PREFIX_BYTES, length)
    return shapes_of(_decoded(text, where), where)


def read_on_hub(
    api: HfApi, query: HubQuery, commit: str, files: Collection[str]
) -> TensorFacts:
    """Return the tensors of a model on the Hub; none where it has no safetensors.

    The first 100 kB of a file nearly always hold its header; no weights are read.
    """
    shards = shards_of(files)
    if not shards:
        return TensorFacts()
    headers = None
    if INDEX in files and len(shards) > 1 and query.revision is None:
        headers = _all_at_once(api, query)
    return _tensor_facts(headers or _one_by_one(api, query, commit, shards))


def _all_at_once(
    api: HfApi, query: HubQuery
) -> Iterable[SafetensorsFileMetadata] | None:
    """Request every shard at once, which the Hub answers and mirrors may not."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - lazy

    try:
        repo = api.get_sharded_safetensors_metadata(query.repo_id)
    except (AttributeError, HfHubHTTPError, KeyError, ValueError):
        return None
    return repo.files_metadata.values()


def _one_by_one(
    api: HfApi, query: HubQuery, commit: str, shards: list[str]
) -> Iterable[SafetensorsFileMetadata]:
    def header_of(shard: str) -> SafetensorsFileMetadata:
        return api.parse_safetensors_file_metadata(
            query.repo_id, shard, revision=commit
        )

    return concurrently([partial(header_of, shard) for shard in shards])


def _tensor_facts(headers: Iterable[SafetensorsFileMetadata]) -> TensorFacts:
    shapes: Mapping[str, tuple[str, tuple[int, ...]]] = {
        name: (str(tensor.dtype), _shape(tensor.shape))
        for header in headers
        for name, tensor in header.tensors.items()
    }
    return TensorFacts.of(shapes)
