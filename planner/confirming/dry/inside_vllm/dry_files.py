"""The files beside config.json that vLLM reads: tokenizer and processors, made from it.

For the profile run their words do not matter, but the special tokens that a family's
processor looks for must exist, and the sizes of images and sounds must be those that
the family's checkpoints publish. `dry_families` knows them; files that exist stay.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dry_configs
import dry_encoders  # noqa: F401 - encoders run where processors are made
from dry_families import FAMILIES, kind_of, made_for
from dry_family import Made, MissingFilesError

_CONFIG = "config.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json")
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_ENDS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
"""Tokens that config.json names by `..._id`, and their text where a family has none."""
_CHAT = "{% for message in messages %}{{ message.content }}{% endfor %}"
_LONGEST = 1 << 20
"""model_max_length: more than any model has, for the tokenizer limits nothing here."""


def write(folder: Path, files: Mapping[str, Any]) -> None:
    """Write what is missing of a checkpoint's small files.

    Args:
        folder: holds config.json.
        files: contents that are at hand, by name: text, or what JSON holds.

    Raises:
        MissingFilesError: for a family whose files cannot be made, saying why.
    """
    for name, content in files.items():
        _add(folder, name, content)
    if is_whole(folder):
        return
    config = _completed(folder)
    made = made_for(config)
    for name, content in made.files.items():
        _add(folder, name, content)
        _name_code(folder / name, content)
    _write_tokenizer(folder, config, made)


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer alone, which some models read while they are built."""
    with contextlib.suppress(MissingFilesError):
        _write_tokenizer(folder, _completed(folder), Made())


def _write_tokenizer(folder: Path, config: Mapping[str, Any], made: Made) -> None:
    if not _holds(folder, _TOKENIZERS):
        _add(folder, "tokenizer.json", _tokenizer(config, made))
        _add(folder, "tokenizer_config.json", _tokenizer_config(config, made))


def _completed(folder: Path) -> dict[str, Any]:
    """Return config.json with what its configuration class fills in, as token ids.

    A folder in Mistral's own format has params.json instead, which vLLM converts.
    """
    from transformers.utils import logging
    from vllm.transformers_utils.config import get_config

    path = folder / _CONFIG
    given = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    dry_configs.register(given)
    logging.set_verbosity_error()
    try:
        filled = get_config(str(folder), trust_remote_code=False).to_dict()
    except (ValueError, OSError):  # its class is remote code
        filled = {}
    kind = given.get("model_type", filled.get("model_type"))
    return {**given, **filled, "model_type": kind}


def _add(folder: Path, name: str, content: object) -> None:
    path = folder / name
    if not path.exists():
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")


def _name_code(path: Path, content: object) -> None:
    """Let a file that was at hand name the classes beside it, if it names none."""
    if not isinstance(content, Mapping) or "auto_map" not in content:
        return
    present = json.loads(path.read_text(encoding="utf-8"))
    if "auto_map" not in present:
        path.unlink()
        _add(path.parent, path.name, {**content, **present})


def is_whole(folder: Path) -> bool:
    """Whether the checkpoint's own tokenizer and processor are there."""
    return _holds(folder, _TOKENIZERS) and _holds(folder, _PROCESSORS)


def is_known(folder: Path) -> bool:
    """Whether the files of the model's family are known here."""
    return kind_of(_completed(folder)) in FAMILIES


def _holds(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).exists() for name in names)


def _tokenizer(config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    """Return a byte-level tokenizer whose vocabulary has as many tokens as the model.

    Raises:
        MissingFilesError: where bytes and special tokens exceed the vocabulary.
    """
    special = _special(config, made)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [
            _added(number, text, is_special=text not in made.words)
            for text, number in sorted(special.items(), key=lambda pair: pair[1])
        ],
        "pre_tokenizer": {**byte_level, "trim_offsets": False},
        "decoder": {**byte_level, "trim_offsets": False},
        "model": {"type": "BPE", "vocab": _vocabulary(config, special), "merges": []},
    }


def _added(number: int, text: str, *, is_special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, "special": is_special, **flags}


def _special(config: Mapping[str, Any], made: Made) -> dict[str, int]:
    """Return the ids of special tokens: those given, then the last that are free."""
    found = {
        text: number for text, number in made.special.items() if number is not None
    }
    for name, text in _ends(config, found).items():
        number = _end(config, name)
        if number is not None and number not in found.values():
            found[text] = number
    taken = set(found.values())
    free = (number for number in reversed(range(_size(config))) if number not in taken)
    wanted = [*made.special, *made.words]
    if _end(config, "pad_token") is None:  # processors pad all the same
        wanted.append(_ENDS["pad_token"])
    for text in wanted:
        if text not in found:
            found[text] = next(free)
    return found


def _vocabulary(
    config: Mapping[str, Any], special: Mapping[str, int]
) -> dict[str, int]:
    """Return all tokens: special ones, the 256 bytes, and fillers that no text has."""
    size = max(_size(config), *(number + 1 for number in special.values()), 0)
    names = {number: text for text, number in special.items()}
    bytes_left = (char for char in _byte_characters() if char not in special)
    vocabulary = {}
    for number in range(size):
        text = names.get(number) or next(bytes_left, f"<unused {number}>")
        vocabulary[text] = number
    if next(bytes_left, None) is not None:
        raise MissingFilesError(
            f"A vocabulary of {size} tokens is too small for one of bytes."
        )
    return vocabulary


def _byte_characters() -> Iterator[str]:
    """Yield the characters that stand for bytes in byte-level vocabularies.

    Source: tokenizers, pre_tokenizers.ByteLevel.alphabet.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    yield from sorted(ByteLevel.alphabet())


def _tokenizer_config(config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    special = _special(config, made)
    names = {number: text for text, number in special.items()}
    ends = {}
    for name, text in _ends(config, special).items():
        number = _end(config, name)
        ends[name] = text if number is None else names[number]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _LONGEST,
        "clean_up_tokenization_spaces": False,
        **{name: text for name, text in ends.items() if text in special},
        "extra_special_tokens": dict(made.named),
        "chat_template": _CHAT,
    }


def _ends(config: Mapping[str, Any], special: Mapping[str, int]) -> dict[str, str]:
    """Return the text of the tokens that begin, end and fill a sequence."""
    names = {number: text for text, number in special.items()}
    found = {}
    for name, text in _ENDS.items():
        number = _end(config, name)
        found[name] = names.get(number, text) if number is not None else text
    return found


def _end(config: Mapping[str, Any], name: str) -> int | None:
    for part in (config, _text_config(config)):
        number = part.get(f"{name}_id")
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int) and 0 <= number < _size(config):
            return number
    return None


def _size(config: Mapping[str, Any]) -> int:
    """Return vLLM's number of tokens.

    Raises:
        MissingFilesError: where config.json does not say it.
    """
    for part in (_text_config(config), config):
        if isinstance(size := part.get("vocab_size"), int):
            return size
    raise MissingFilesError(
        "config.json does not say vocab_size, which a tokenizer needs."
    )


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the language model's part of config.json."""
    thinker = config.get("thinker_config") or config
    for name in ("text_config", "llm_config", "language_config"):
        if isinstance(part := thinker.get(name), Mapping):
            return part
    return thinker
