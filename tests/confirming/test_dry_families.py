"""Processor files that dry runs make from config.json, by family."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import planner.confirming.dry

INSIDE_VLLM = Path(planner.confirming.dry.__file__).parent / "inside_vllm"


@pytest.fixture
def families() -> Iterator[ModuleType]:
    """Import what runs in vLLM's Python; its tables need the standard library alone."""
    before = set(sys.modules)
    sys.path.insert(0, str(INSIDE_VLLM))
    try:
        yield import_module("dry_families")
    finally:
        sys.path.remove(str(INSIDE_VLLM))
        for name in set(sys.modules) - before:
            if name.startswith("dry_"):
                del sys.modules[name]


def test_a_text_only_model_needs_no_processor(families: ModuleType) -> None:
    """It gets a tokenizer without special tokens of a family."""
    made = families.made_for({"model_type": "qwen3", "vocab_size": 151936})
    assert (made.special, made.files) == ({}, {})


def test_an_image_has_the_pixels_that_checkpoints_publish(families: ModuleType) -> None:
    """Qwen2-VL: 12,845,056 at most, in patches of config.json."""
    made = families.made_for(
        {
            "model_type": "qwen2_vl",
            "image_token_id": 151655,
            "vision_config": {"patch_size": 14, "spatial_merge_size": 2},
        }
    )
    content = made.files["preprocessor_config.json"]
    assert content["max_pixels"] == 12_845_056
    assert (content["patch_size"], content["merge_size"]) == (14, 2)
    assert made.special["<|image_pad|>"] == 151655


def test_tiles_have_the_size_of_the_tower(families: ModuleType) -> None:
    """Idefics 3: four of 364 pixels along the longer side, 13 x 13 tokens each."""
    made = families.made_for(
        {
            "model_type": "idefics3",
            "scale_factor": 2,
            "vision_config": {"image_size": 364, "patch_size": 14},
        }
    )
    assert made.files["preprocessor_config.json"]["size"] == {"longest_edge": 1456}
    assert made.files["processor_config.json"]["image_seq_len"] == 13 * 13


def test_a_sound_token_of_voxtral_holds_eight_steps(families: ModuleType) -> None:
    """100 steps a second, halved by a convolution, four in a token: 12.5 a second."""
    made = families.made_for(
        {
            "model_type": "voxtral",
            "text_config": {"vocab_size": 2000},
            "audio_config": {
                "num_mel_bins": 128,
                "hidden_size": 1280,
                "intermediate_size": 5120,
            },
        }
    )
    tekken = made.files["tekken.json"]
    assert tekken["audio"]["frame_rate"] == 100 / 2 / 4
    assert len({token["token_bytes"] for token in tekken["vocab"]}) == 2000 - 1000


def test_voxtral_in_mistrals_own_format_is_known_by_its_architecture(
    families: ModuleType,
) -> None:
    """vLLM's configuration of params.json has no model_type: 100 / 2 / 4 a second."""
    made = families.made_for(
        {
            "model_type": "",
            "architectures": ["VoxtralForConditionalGeneration"],
            "text_config": {"vocab_size": 2000},
            "audio_config": {"num_mel_bins": 128, "downsample_factor": 4},
        }
    )
    assert made.files["tekken.json"]["audio"]["frame_rate"] == 12.5


def test_a_tokenizer_can_pad_what_config_json_does_not_say_how(
    families: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Granite Speech's processor pads: the last token that is free; else the given."""
    # What it imports of Transformers is not asked here.
    monkeypatch.setitem(sys.modules, "dry_configs", ModuleType("dry_configs"))
    files = import_module("dry_files")
    made = families.Made(special={"<|audio|>": 999})
    config = {"vocab_size": 1000}

    assert files._special(config, made) == {"<|audio|>": 999, "<pad>": 998}
    assert files._special({**config, "pad_token_id": 3}, made)["<pad>"] == 3


class _Sound:
    """What a Fourier transform asks of a tensor."""

    shape = (8, 400)
    dtype = SimpleNamespace(to_complex=lambda: "complex64")

    def new_empty(self, size: list[int], dtype: str) -> tuple[list[int], str]:
        return size, dtype


@pytest.mark.usefixtures("families")
@pytest.mark.parametrize(("onesided", "width"), [(True, 201), (False, 400)])
def test_a_spectrogram_has_half_the_frequencies_of_its_window(
    onesided: bool, width: int
) -> None:
    """Of 400 samples: 400 / 2 and the constant one; the others mirror them."""
    encoders = import_module("dry_encoders")
    size = encoders._fourier(_Sound(), [1], 0, onesided)
    assert size == ([8, width], "complex64")


@pytest.mark.parametrize(
    ("prefix", "listed", "is_quantised"),
    [
        ("model.layers.0.self_attn.qkv_proj", [], True),
        ("model.layers.0.mlp.gate_up_proj", [], True),
        ("model.layers.0.mlp.gate", [], False),
        ("visual.blocks.0.attn.qkv", [], False),
        ("lm_head", [], False),
        ("model.layers.0.mlp.gate", ["mlp.gate"], "vLLM's own"),
    ],
)
@pytest.mark.usefixtures("families")
def test_gptq_without_weights_takes_the_layers_of_the_usual_checkpoint(
    prefix: str, listed: list[str], is_quantised: object
) -> None:
    """Linear layers of the decoder; vLLM's own rule where it knows which."""
    import_module("dry_releases")
    (hook,) = import_module("dry_hooks").HOOKS[
        "vllm.model_executor.layers.quantization.utils.gptq_utils"
    ]
    module = SimpleNamespace(is_layer_gptq_quantized=lambda *_args: "vLLM's own")

    hook(module)

    assert module.is_layer_gptq_quantized(prefix, listed) == is_quantised


def _hooked(name: str, module: SimpleNamespace) -> None:
    """Change a module of an older release as after its import."""
    import_module("dry_releases")
    for hook in import_module("dry_hooks").HOOKS[name]:
        hook(module)


@pytest.mark.usefixtures("families")
def test_memory_of_this_machine_does_not_limit_swap_space() -> None:
    """Releases without the check have nothing to change."""
    module = SimpleNamespace(get_cpu_memory=lambda: 8)
    _hooked("vllm.config.cache", module)
    assert module.get_cpu_memory() > 1 << 60
    newer = SimpleNamespace()
    _hooked("vllm.config.cache", newer)
    assert vars(newer) == {}


@pytest.mark.usefixtures("families")
def test_a_missing_configuration_of_a_module_is_empty(tmp_path: Path) -> None:
    """Files that exist, other files, and names on the Hub are read as ever."""
    module = SimpleNamespace(get_hf_file_to_dict=lambda name, *_more: {"read": name})
    _hooked("vllm.transformers_utils.repo_utils", module)
    read, pooling = module.get_hf_file_to_dict, "1_Pooling/config.json"
    assert read(pooling, str(tmp_path), "main") == {}
    assert read("modules.json", str(tmp_path)) == {"read": "modules.json"}
    assert read(pooling, "BAAI/bge-m3") == {"read": pooling}
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / pooling).write_text("{}", encoding="utf-8")
    assert read(pooling, str(tmp_path)) == {"read": pooling}


@pytest.mark.usefixtures("families")
def test_processors_take_the_tokenizer_that_was_made() -> None:
    """Whatever its class; what else they are made of is checked as ever."""

    class Mixin:
        def check_argument_for_proper_class(self, name: str, _argument: object) -> str:
            raise TypeError(name)

    _hooked("transformers.processing_utils", SimpleNamespace(ProcessorMixin=Mixin))
    assert Mixin().check_argument_for_proper_class("tokenizer", "made") is str
    with pytest.raises(TypeError, match="image_processor"):
        Mixin().check_argument_for_proper_class("image_processor", "made")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "molmo", "vision_config": {}}, "trust_remote_code"),
        ({"model_type": "unheard_of", "vision_config": {}}, "vision_config"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(
    families: ModuleType, config: dict[str, object], reason: str
) -> None:
    """A processor of the checkpoint's own code, and a family that is not known."""
    with pytest.raises(ValueError, match=reason) as raised:
        families.made_for(config)
    assert "Copy the checkpoint's files" in str(raised.value)


class _Held:
    """A tensor on a device, which a fill writes to."""

    def __init__(self, device: str) -> None:
        self.device = SimpleNamespace(type=device)
        self.filled: list[float] = []

    def fill_(self, value: float) -> None:
        self.filled.append(value)


class _State:
    """Like vLLM's: it folds the tokenizer's words, and checks how many are left."""

    def __init__(self, _config: object, layout: SimpleNamespace) -> None:
        words, left = sys.modules["engram"].build_compressed_token_map(range(8))
        if left != layout.compressed_vocab_size:
            raise ValueError(left)
        self.padding = words[layout.pad_token_id]


class _Table:
    """Like vLLM's: weight and scales, on the host or on the GPU."""

    def __init__(self, device: str) -> None:
        self.weight, self.weight_scale_inv = _Held(device), _Held(device)


@pytest.mark.usefixtures("families")
def test_tables_of_n_grams_are_neither_folded_nor_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The made tokenizer has other words, and tables on the host have gigabytes."""
    (hook,) = import_module("dry_hooks").HOOKS["vllm.models.deepseek_v41.common.engram"]
    module = SimpleNamespace(
        NgramHashState=_State,
        ParallelEngramEmbedding=_Table,
        build_compressed_token_map=lambda _words: ([], 0),
    )
    monkeypatch.setitem(sys.modules, "engram", module)

    hook(module)

    layout = SimpleNamespace(compressed_vocab_size=5, pad_token_id=9)
    assert _State(None, layout).padding == 0
    on_host, on_gpu = _Table("cpu"), _Table("cuda")
    for table in (on_host, on_gpu):
        table.weight.fill_(1.0)
    assert not on_host.weight.filled
    assert [1.0] == on_gpu.weight.filled


@pytest.mark.parametrize(
    ("integrated", "available"), [("1", 7 << 30), ("0", "this machine's")]
)
@pytest.mark.usefixtures("families")
def test_a_gpu_that_shares_the_hosts_memory_answers_for_it(
    monkeypatch: pytest.MonkeyPatch, integrated: str, available: object
) -> None:
    """vLLM asks the operating system for free memory there, as on a GB10."""
    hooks = import_module("dry_hooks")
    (hook,) = hooks.HOOKS["vllm.utils.mem_utils"]
    memory = SimpleNamespace(mem_get_info=lambda: (7 << 30, 120 << 30))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=memory))
    monkeypatch.setenv("PLANNER_GPU_INTEGRATED", integrated)
    own = SimpleNamespace(available="this machine's")
    module = SimpleNamespace(psutil=SimpleNamespace(virtual_memory=lambda: own))

    hook(module)

    assert module.psutil.virtual_memory().available == available


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (OSError("Can't load image processor for 'x'"), True),
        (ValueError("The number of experts must be even"), False),
    ],
)
@pytest.mark.usefixtures("families")
def test_encoders_without_files_are_told_from_what_vllm_refuses(
    error: Exception, lacks: object
) -> None:
    """Only the first lets a start go on without profiling them."""
    assert import_module("dry_encoders").lacks_files(error) is lacks


def test_code_that_a_checkpoint_brings_has_stand_ins(families: ModuleType) -> None:
    """MiniCPM-V's classes, under the names of its own files."""
    made = families.made_for(
        {"model_type": "minicpmv", "image_size": 448, "patch_size": 14, "query_num": 64}
    )
    settings = made.files["preprocessor_config.json"]
    for place in settings["auto_map"].values():
        module, name = place.split(".")
        assert made.files[f"{module}.py"] == f"from dry_stand_ins import {name}\n"
    assert settings["scale_resolution"] == 448
    assert "<slice>" in made.special


def test_a_tile_of_ovis_has_the_size_of_its_tower(families: ModuleType) -> None:
    """And the token that its language model has for images."""
    made = families.made_for(
        {
            "model_type": "ovis",
            "llm_config": {"model_type": "qwen2"},
            "visual_tokenizer_config": {"backbone_config": {"image_size": 448}},
        }
    )
    settings = made.files["preprocessor_config.json"]
    assert settings["crop_size"] == {"height": 448, "width": 448}
    assert "<|image_pad|>" in made.special
