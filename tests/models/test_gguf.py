"""GGUF files: their headers, the model they hold, and where they may be."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from pathlib import Path

import pytest

import planner
from planner.errors import ModelNotFound, PlannerError, UnknownArchitecture
from planner.models.sources import gguf
from planner.models.sources.finding import model_files
from planner.models.sources.gguf import (
    TYPES,
    chosen,
    is_quantised_name,
    read_header,
    row_bytes,
    shard_names,
)
from tests.gguf_files import QWEN3, gguf_bytes, qwen3_tensors, write_qwen3


def _header(content: bytes):
    return read_header(BytesIO(content), "m.gguf")


def test_a_header_gives_metadata_types_and_shapes() -> None:
    """Rows come first, as in a safetensors file."""
    found = _header(gguf_bytes(QWEN3, qwen3_tensors(attn_v="Q6_K")))
    assert found.metadata["qwen3.block_count"] == 2
    assert found.metadata["general.architecture"] == "qwen3"
    assert found.tensors["blk.1.attn_v.weight"] == ("Q6_K", (1024, 1024))
    assert found.tensors["blk.0.ffn_down.weight"] == ("Q4_K", (1024, 3072))


def test_of_a_vocabulary_only_the_length_is_kept() -> None:
    """A list of 2,000 words is skipped, one of three is read."""
    words = [f"word{number}" for number in range(2000)]
    found = _header(gguf_bytes({"long": words, "short": words[:3], "last": 7}, {}))
    assert found.metadata == {"long": 2000, "short": words[:3], "last": 7}


@pytest.mark.parametrize(
    ("kind", "size"),
    [("Q4_0", 576), ("Q8_0", 1088), ("Q4_K", 576), ("Q6_K", 840), ("IQ4_XS", 544)],
)
def test_weights_lie_in_blocks(kind: str, size: int) -> None:
    """A row of 1,024 weights: 32 blocks of 32, or 4 of 256."""
    assert row_bytes(kind, 1024) == size


def test_each_type_has_a_name_of_its_own() -> None:
    """And whole blocks of a positive size."""
    assert len({name for name, _, _ in TYPES.values()}) == len(TYPES)
    assert all(block > 0 and size > 0 for _, block, size in TYPES.values())


_WHOLE = gguf_bytes(QWEN3, qwen3_tensors())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"PK\x03\x04" + _WHOLE[4:], "does not begin with GGUF"),
        (gguf_bytes(QWEN3, {}, version=1), "version 1"),
        (_WHOLE[:200], "ends within its header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40), "bytes of a text"),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<I", 99),
            "kind 99",
        ),
        (
            b"GGUF"
            + struct.pack("<IQQQ", 3, 0, 1, 1)
            + b"a"
            + struct.pack("<IIQ", 9, 8, 1 << 40),
            "entries of a list",
        ),
        (
            b"GGUF"
            + struct.pack("<IQQQ", 3, 0, 1, 1)
            + b"a"
            + struct.pack("<IIQ", 9, 9, 1),
            "lists of lists",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"a" + struct.pack("<I", 9),
            "9 dimensions",
        ),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, why: str) -> None:
    """Each count is bounded before anything of that size is read."""
    with pytest.raises(PlannerError, match=why):
        _header(content)


def test_the_config_is_made_of_the_metadata(tmp_path: Path) -> None:
    """In the words of config.json; the head is untied where the file has one."""
    config = model_files(write_qwen3(tmp_path / "m.gguf")).config
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert (config["num_hidden_layers"], config["head_dim"]) == (2, 128)
    assert config["tie_word_embeddings"] is False
    tied = model_files(write_qwen3(tmp_path / "tied.gguf", output="")).config
    assert tied["tie_word_embeddings"] is True


def test_a_config_beside_the_file_comes_first(tmp_path: Path) -> None:
    """It is what the package reads."""
    given = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (tmp_path / "config.json").write_text(json.dumps(given))
    found = model_files(write_qwen3(tmp_path / "m.gguf"))
    assert found.config == {**given, "tie_word_embeddings": False}
    assert found.source.startswith("config.json beside")


def test_an_argument_names_the_config(tmp_path: Path) -> None:
    """The tokenizer's model, as `vllm serve ... --tokenizer` is used."""
    path = write_qwen3(tmp_path / "m.gguf")
    changed = {"num_hidden_layers": 2}
    made = planner.plan(
        path,
        gpu="L40S",
        tokenizer="Qwen/Qwen3-0.6B",
        hf_overrides=changed,
        vllm_version="0.23.0",
    )
    alone = planner.plan(path, gpu="L40S", vllm_version="0.23.0")
    assert made.ranks[0].weights_bytes == alone.ranks[0].weights_bytes


def test_a_tokenizer_that_cannot_be_read_is_not_needed(tmp_path: Path) -> None:
    """The metadata says the same; without it, the error is the tokenizer's."""
    path, gone = write_qwen3(tmp_path / "m.gguf"), str(tmp_path / "gone")
    assert planner.plan(path, gpu="L40S", tokenizer=gone).error is None
    path.write_bytes(gguf_bytes({"general.architecture": "rwkv7"}, qwen3_tensors()))
    with pytest.raises(ModelNotFound, match="gone"):
        planner.plan(path, gpu="L40S", tokenizer=gone)


def test_metadata_of_another_architecture_needs_a_config(tmp_path: Path) -> None:
    """The error says how to name one."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": "rwkv7"}, qwen3_tensors()))
    with pytest.raises(PlannerError, match="hf_config_path"):
        planner.plan(path, gpu="L40S")


def test_mixtral_is_not_taken_for_llama(tmp_path: Path) -> None:
    """llama.cpp calls both llama."""
    own = {"general.architecture": "llama", "llama.expert_count": 8}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(own, qwen3_tensors()))
    with pytest.raises(PlannerError, match="hf_config_path"):
        planner.plan(path, gpu="L40S")


def test_images_are_not_modelled(tmp_path: Path) -> None:
    """A config with a text model inside is one of several."""
    (tmp_path / "config.json").write_text('{"model_type": "x", "text_config": {}}')
    with pytest.raises(UnknownArchitecture, match="images or sounds"):
        planner.plan(write_qwen3(tmp_path / "m.gguf"), gpu="L40S")


def test_a_folder_and_a_type_name_a_file(tmp_path: Path) -> None:
    """As `folder:Q4_K_M`; another type is not there."""
    write_qwen3(tmp_path / "m-Q4_K_M.gguf")
    assert model_files(f"{tmp_path}:Q4_K_M").gguf_tensors
    with pytest.raises(ModelNotFound, match=r"no file named \*-Q8_0"):
        model_files(f"{tmp_path}:Q8_0")


def test_a_divided_file_is_read_whole(tmp_path: Path) -> None:
    """Any of its parts stands for all; a missing one is named."""
    tensors = qwen3_tensors()
    half = dict(list(tensors.items())[:8])
    rest = {name: tensor for name, tensor in tensors.items() if name not in half}
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(gguf_bytes(QWEN3, half))
    with pytest.raises(ModelNotFound, match="m-00002-of-00002"):
        model_files(first)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(gguf_bytes({}, rest))
    assert dict(model_files(first).gguf_tensors) == tensors


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Qwen/Qwen3-8B-GGUF:Q4_K_M", True),
        ("unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", True),
        ("owner/name:IQ2_M", True),
        ("owner/name:BF16", True),
        ("owner/name:latest", False),
        ("https://huggingface.co/owner/name", False),
        ("owner/name", False),
    ],
)
def test_which_names_have_a_type(text: str, is_one: bool) -> None:
    """By the types of llama.cpp, with a prefix or without."""
    assert is_quantised_name(text) is is_one


def test_the_file_of_a_type_is_the_least_divided() -> None:
    """Case does not matter."""
    names = ["m-Q4_K_M-00001-of-00002.gguf", "m-q4_k_m.gguf", "m-Q4_K_S.gguf"]
    assert chosen(names, "Q4_K_M") == "m-q4_k_m.gguf"
    assert chosen(names[:1], "Q4_K_M") == names[0]
    assert chosen(names, "Q8_0") is None


def _entry(key: bytes, content: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + content


def _of_lists(lists: list[bytes]) -> bytes:
    entries = [_entry(b"k%d" % n, content) for n, content in enumerate(lists)]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(lists)) + b"".join(entries)


def test_short_lists_of_numbers_are_read_at_once() -> None:
    """Of each kind, as what they are."""
    numbers = struct.pack("<IIQ3i", 9, 5, 3, -1, 0, 7)
    switches = struct.pack("<IIQ2?", 9, 7, 2, True, False)
    found = _header(_of_lists([numbers, switches]))
    assert found.metadata == {"k0": [-1, 0, 7], "k1": [True, False]}


class _Counted(BytesIO):
    """A stream that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_reads_do_not_grow_with_a_list_of_numbers() -> None:
    """The content of a list is one part, however long."""
    counts = []
    for length in (3, 1000):
        stream = _Counted(
            _of_lists([struct.pack("<IIQ", 9, 0, length) + bytes(length)])
        )
        read_header(stream, "m.gguf")
        counts.append(stream.reads)
    assert counts[0] == counts[1]


def test_a_long_text_is_kept_in_part() -> None:
    """Of a chat template nothing is needed."""
    template = "x" * 5000
    text = struct.pack("<IQ", 8, len(template)) + template.encode()
    assert _header(_of_lists([text])).metadata["k0"] == template[:1024]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 5000),
            "claims 5,000 entries of metadata",
        ),
        (
            _of_lists([struct.pack("<IIQ", 9, 0, 1000) + bytes(1000)] * 17),
            "metadata has too many lists",
        ),
        (_of_lists([struct.pack("<IIQ", 9, 8, 1_600_000)]), "too many texts"),
        (_of_lists([struct.pack("<IIQ", 9, 8, 2000)]), "ends within its header"),
        (
            _of_lists([struct.pack("<IIQ", 9, 8, 2000) + b"\xff" * 8]),
            "ends within its header",
        ),
        (
            _of_lists([struct.pack("<IIQ", 9, 12, 9 << 20)]),
            "header is too long",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 2000),
            "claims 2,000 bytes of a name",
        ),
    ],
)
def test_more_than_any_model_has_is_refused(content: bytes, why: str) -> None:
    """Before it is read, as far as the file says how much there is."""
    with pytest.raises(PlannerError, match=why):
        _header(content)


def test_files_of_a_divided_model_are_bounded(tmp_path: Path, monkeypatch) -> None:
    """In their number, and in the tensors of all."""
    with pytest.raises(PlannerError, match="one of 99,999 files"):
        shard_names("m-00001-of-99999.gguf")
    monkeypatch.setattr(gguf, "_MAX_TENSORS", 20)
    tensors = qwen3_tensors()
    paths = [tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    paths[0].write_bytes(gguf_bytes(QWEN3, tensors))
    paths[1].write_bytes(
        gguf_bytes({}, {f"x.{name}": one for name, one in tensors.items()})
    )
    with pytest.raises(PlannerError, match="more than 20 tensors"):
        planner.plan(paths[0], gpu="H100", vllm_version="0.23.0")
