"""Headers of GGUF files, on disk: metadata, and type and shape of each tensor.

A file begins with a magic number, a version, and the counts of tensors and of metadata
entries; then the entries and the tensors' names, shapes, types and places. Long lists
(the tokenizer's) are skipped, and only their length is kept; of a long text (a chat
template) only its beginning.

Source: the GGUF format description of ggml.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from planner.errors import ModelNotFound, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources.gguf_config import config_of
from planner.surroundings import may_read
from planner.user_files import MOST_CONFIG_BYTES, opened, read_file, user_path
from planner.values import frozen

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_TENSORS = 100_000
"""The largest published models have some thousand."""
_MAX_ENTRIES = 4_096
"""Of metadata: published files have about fifty."""
_MAX_NAME_BYTES = 1_024
"""Of a tensor; ggml takes 63."""
_MAX_TEXT_BYTES = 16 << 20
_MAX_LIST = 1 << 24
_MAX_TEXTS = 1_500_000
"""In all lists together: a tokenizer has 300,000 words and 600,000 merges."""
_MAX_HEADER_BYTES = 64 << 20
"""The vocabularies of today take up to 32 MB."""
_KEPT_LIST = 1024
"""Longer lists are a vocabulary's, of which only the length matters."""
_KEPT_IN_ALL = 16_384
"""Entries of all lists that are kept."""
_KEPT_TEXT_BYTES = 1_024
_MOST_FILES = 1_000
"""Of a divided model; published ones have up to a hundred."""
_MAX_DIMS = 4

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _LIST = 8, 9

TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}
"""A type's number: its name, the weights of a block, and the bytes that hold it.

Source: gguf 0.19.0 `constants.py` GGMLQuantizationType, GGML_QUANT_SIZES.
"""
_SHARD = re.compile(r"(.*-)\d{5}-of-(\d{5})\.gguf")
_QUANT = re.compile(r"(?:[\w.+-]+-)?(?:I?Q\d\w*|F16|BF16|F32|TQ\d\w*|MXFP4\w*|NVFP4)")
"""A file type, maybe with a prefix such as UD-.

Source: vLLM 0.23.0 `transformers_utils/gguf_utils.py` is_valid_gguf_quant_type;
vllm-gguf-plugin 0.0.5 `gguf_utils.py` is_nonstandard_gguf_quant_type.
"""

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


@frozen
class Header:
    """What a file says before its weights."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Scalars, texts and short lists; of a longer list its length."""
    tensors: Shapes = field(default_factory=dict)
    """Name to type and shape, the rows first, as vLLM has them."""


class _Reader:
    """Reads little-endian values of a stream, within bounds."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self._where, self._left = stream, where, _MAX_HEADER_BYTES
        self._texts_left, self._kept_left = _MAX_TEXTS, _KEPT_IN_ALL

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            PlannerError: where the file ends before, or the header is too long.
        """
        self._left -= count
        if self._left < 0:
            raise damaged(self._where, "its header is too long")
        found = self._stream.read(count)
        if len(found) < count:
            raise damaged(self._where, "it ends within its header")
        return found

    def number(self, form: str) -> Any:  # noqa: ANN401 - by the form
        """Return the next number of a form of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, most: int, what: str) -> int:
        """Return the next count, checked.

        Raises:
            PlannerError: where it is larger than any published file's.
        """
        found: int = self.number("<Q")
        if found > most:
            raise damaged(self._where, f"it claims {found:,} {what}")
        return found

    def name(self) -> str:
        """Return the next name of a tensor."""
        size = self.count(_MAX_NAME_BYTES, "bytes of a name")
        return self.take(size).decode("utf-8", errors="replace")

    def text(self) -> str:
        """Return the next text, or the beginning of a long one."""
        size = self.count(_MAX_TEXT_BYTES, "bytes of a text")
        return self.take(size)[:_KEPT_TEXT_BYTES].decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:  # noqa: ANN401 - as the file has it
        """Return the next value of a kind.

        Raises:
            PlannerError: for a kind that the format does not have.
        """
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            return self._listed()
        raise damaged(self._where, f"its metadata has a value of kind {kind}")

    def _listed(self) -> Any:  # noqa: ANN401 - a list, or the length of one
        kind = self.number("<I")
        count = self.count(_MAX_LIST, "entries of a list")
        if kind == _LIST:
            raise damaged(self._where, "its metadata has lists of lists")
        if kind not in (*_SCALARS, _STRING):
            raise damaged(self._where, f"its metadata has a value of kind {kind}")
        is_kept = count <= _KEPT_LIST
        if is_kept:
            self._kept_left -= count
            if self._kept_left < 0:
                raise damaged(self._where, "its metadata has too many lists")
        if kind in _SCALARS:
            content = self.take(count * struct.calcsize(_SCALARS[kind]))
            form = f"<{count}{_SCALARS[kind][1]}"
            return list(struct.unpack(form, content)) if is_kept else count
        if is_kept:
            return [self.text() for _ in range(count)]
        self._skip_texts(count)
        return count

    def _skip_texts(self, count: int) -> None:
        """Pass over a vocabulary, one text after the other."""
        self._texts_left -= count
        if self._texts_left < 0:
            raise damaged(self._where, "its lists have too many texts")
        read, left = self._stream.read, self._left
        for _ in range(count):
            length = read(8)
            size = int.from_bytes(length, "little")
            left -= size + 8
            if left < 0 or len(length) < 8 or len(read(size)) < size:  # noqa: PLR2004 - of a count
                raise damaged(self._where, "it ends within its header")
        self._left = left


def read_header(stream: BinaryIO, where: str) -> Header:
    """Return the header at the beginning of a stream.

    Raises:
        PlannerError: where it is not one of a GGUF file.
    """
    reader = _Reader(stream, where)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise damaged(where, "it does not begin with GGUF")
    version = reader.number("<I")
    if version not in _VERSIONS:
        raise damaged(where, f"its version {version:,} is none of {_VERSIONS}")
    num_tensors = reader.count(_MAX_TENSORS, "tensors")
    num_entries = reader.count(_MAX_ENTRIES, "entries of metadata")
    metadata = {}
    for _ in range(num_entries):
        key = reader.text()
        metadata[key] = reader.value(reader.number("<I"))
    tensors = dict(_tensor(reader, where) for _ in range(num_tensors))
    return Header(metadata=metadata, tensors=tensors)


def _tensor(reader: _Reader, where: str) -> tuple[str, tuple[str, tuple[int, ...]]]:
    name, num_dims = reader.name(), reader.number("<I")
    if num_dims > _MAX_DIMS:
        raise damaged(where, f"the tensor {name[:80]!r} has {num_dims:,} dimensions")
    shape = tuple(reader.number("<Q") for _ in range(num_dims))
    kind = reader.number("<I")
    reader.number("<Q")  # where its weights are
    if kind not in TYPES:
        raise damaged(where, f"the tensor {name[:80]!r} is of the unknown type {kind}")
    return name, (TYPES[kind][0], shape[::-1])


def damaged(where: str, why: str) -> PlannerError:
    """Return the error for a file that cannot be read."""
    return PlannerError(
        f"{where} is not a whole GGUF file: {why}. Download it again, or plan a "
        "release of the model in another format."
    )


def row_bytes(kind: str, columns: int) -> int:
    """Return the bytes of a row of weights of a type.

    >>> row_bytes("Q4_K", 4096)
    2304
    """
    block, size = _SIZES[kind]
    return columns // block * size


_SIZES = {name: (block, size) for name, block, size in TYPES.values()}


def is_quantised_name(text: str) -> bool:
    """Whether a text is a name and a file type: `owner/name:Q4_K_M`, `folder:Q8_0`."""
    name, _, quant = text.rpartition(":")
    return bool(name) and _QUANT.fullmatch(quant) is not None


def read(path: Path, name: str) -> ModelFiles:
    """Return the model in a GGUF file; all files of a divided one.

    Raises:
        PlannerError: where a file is damaged or missing.
    """
    paths = _shards(path)
    stamp = tuple((file, file.stat().st_mtime_ns) for file in paths)
    return _remembered(stamp, name)


def read_quantised(text: str) -> ModelFiles | None:
    """Return the model of `folder:QUANT`; None where there is no such folder.

    Raises:
        ModelNotFound: where the folder has no file of that type.

    Source: vllm-gguf-plugin 0.0.5 `weight_utils.py` resolve_local_gguf.
    """
    name, _, quant = text.rpartition(":")
    folder = user_path(name)
    if not (may_read(folder) and folder.is_dir()):
        return None
    found = chosen((path.name for path in folder.glob("*.gguf")), quant)
    if found is None:
        raise ModelNotFound(
            f"The folder {name!r} has no file named *-{quant}.gguf. Give the file "
            "itself, or another type."
        )
    return read(folder / found, text)


def chosen(names: Iterable[str], quant: str) -> str | None:
    """Return the file of a type, the first of a divided one; None without any.

    Source: vLLM 0.23.0 `model_loader/weight_utils.py` download_gguf.
    """
    found = [
        name
        for name in names
        if re.search(
            rf"[.-]{re.escape(quant)}(?:-[^/]*)?\.gguf$", name, flags=re.IGNORECASE
        )
    ]
    return min(found, key=lambda name: (name.count("-"), name), default=None)


def shard_names(name: str) -> tuple[str, ...]:
    """Return the names of all files of a divided model, or the one of a whole.

    Raises:
        PlannerError: where they are more than of any model.

    >>> shard_names("m-00001-of-00002.gguf")
    ('m-00001-of-00002.gguf', 'm-00002-of-00002.gguf')
    """
    divided = _SHARD.fullmatch(name)
    if divided is None:
        return (name,)
    stem, total = divided[1], divided[2]
    if int(total) > _MOST_FILES:
        raise PlannerError(
            f"{name} is one of {int(total):,} files; a model in at most "
            f"{_MOST_FILES:,} is read. Plan a release in another format."
        )
    return tuple(f"{stem}{n:05}-of-{total}.gguf" for n in range(1, int(total) + 1))


def _shards(path: Path) -> tuple[Path, ...]:
    paths = tuple(path.parent / name for name in shard_names(path.name))
    missing = [file.name for file in paths if not file.is_file()]
    if missing:
        raise ModelNotFound(
            f"{path} is one of {len(paths)} files, of which {missing[0]} is missing. "
            "Put all into one folder."
        )
    return paths


@lru_cache(maxsize=16)
def _remembered(stamp: tuple[tuple[Path, int], ...], name: str) -> ModelFiles:
    headers = map(_header, (path for path, _ in stamp))
    return files_of(headers, name, _beside(stamp[0][0]))


def _header(path: Path) -> Header:
    with opened(path) as stream:
        return read_header(stream, str(path))


def _beside(path: Path) -> bytes | None:
    config = path.parent / "config.json"
    return read_file(config, MOST_CONFIG_BYTES) if config.is_file() else None


def files_of(
    headers: Iterable[Header], name: str, config: bytes | None = None
) -> ModelFiles:
    """Return the model of one or more headers.

    Args:
        headers: the first has the metadata.
        name: as the user gave it.
        config: config.json beside the file; None: made of the metadata where possible.

    Raises:
        PlannerError: where that is none, or the headers list too many tensors.
    """
    others = iter(headers)
    first = next(others)
    tensors = dict(first.tensors)
    for header in others:
        tensors.update(header.tensors)
        if len(tensors) > _MAX_TENSORS:
            raise damaged(name, f"its files list more than {_MAX_TENSORS:,} tensors")
    made, source = config_of(first.metadata, tensors, config, name)
    return ModelFiles(name=name, config=made, source=source, gguf_tensors=tensors)
