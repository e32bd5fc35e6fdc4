"""Models as older releases built them: their own classes, their own dtypes."""

import json
from pathlib import Path

import planner
from planner.models.families.older import OLDER
from planner.models.families.registry import built_otherwise, readers
from tests.rows import each_row

SMALL = {
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 50304,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
WORDS = 50304 * 1024 * 2
TABLE = 2048 * 64 * 2


def weights(folder: Path, release: str, config: dict[str, object], **args: int) -> int:
    """Bytes of the first stage's weights."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**SMALL, **config}))
    plan = planner.plan(folder, gpu="H100", vllm_version=release, **args)
    stage = plan.to_dict()["ranks"][0]
    return int(stage["weights_bytes"])


def test_olmo_had_embeddings_and_head_on_every_stage(tmp_path: Path) -> None:
    """Before 0.26 a stage of two held both; now the first holds the embeddings."""
    olmo = {"architectures": ["OlmoForCausalLM"], "model_type": "olmo"}
    old = weights(tmp_path, "0.25.1", olmo, pipeline_parallel_size=2)
    new = weights(tmp_path, "0.26.0", olmo, pipeline_parallel_size=2)
    frequencies = 2 * 32 * 4
    assert WORDS + TABLE - frequencies == old - new


def test_glm_had_a_table_of_cosines(tmp_path: Path) -> None:
    """Until 0.31, half of a head's 64 dimensions for 2,048 positions."""
    glm = {
        "architectures": ["GlmForCausalLM"],
        "model_type": "glm",
        "partial_rotary_factor": 0.5,
        "head_dim": 64,
    }
    old = weights(tmp_path, "0.31.0", glm)
    new = weights(tmp_path, "0.32.0", glm)
    assert TABLE // 2 - 2 * 16 * 4 == old - new


BIGCODE = {
    "architectures": ["GPTBigCodeForCausalLM"],
    "model_type": "gpt_bigcode",
    "n_embd": 1024,
    "n_head": 16,
    "n_layer": 4,
    "n_positions": 2048,
    "n_inner": 4096,
    "multi_query": True,
    "tie_word_embeddings": True,
}


def test_gpt_bigcode_was_divided_then_whole_then_half_divided(tmp_path: Path) -> None:
    """Over two ranks: 0.24 divides MLP and attention, 0.25 neither, 0.27 attention."""
    found = [
        weights(tmp_path, release, BIGCODE, tensor_parallel_size=2)
        for release in ("0.24.0", "0.25.1", "0.27.0", "0.33.0")
    ]
    mask = 2048 * 2048
    mlp = 4 * (2 * 1024 * 4096 + 4096) * 2  # weights and the bias of c_fc
    queries_and_output = 4 * (2 * 1024 * 1024 + 1024) * 2
    assert mask + (mlp + queries_and_output) // 2 == found[1] - found[0]
    assert queries_and_output // 2 == found[1] - found[2]
    assert found[2] == found[3]


def test_glm_5_has_routers_in_float32_in_one_release() -> None:
    """75 layers of 256 experts and 6,144 columns: 2 bytes more than in bfloat16."""
    found = [
        planner.plan(
            "zai-org/GLM-5",
            gpu="B200",
            vllm_version=release,
            tensor_parallel_size=8,
            enable_expert_parallel=True,
        ).to_dict()["ranks"][0]["weights_bytes"]
        for release in ("0.24.0", "0.25.0", "0.26.0")
    ]
    assert 75 * 256 * 6144 * 2 == found[1] - found[0] == found[1] - found[2]


def test_transformers_before_5_20_read_flat_configs_of_glm_4_1v(
    tmp_path: Path,
) -> None:
    """Its 65,536 positions count until 0.32; in 0.33 the class's 32,768 do."""
    config = {
        **SMALL,
        "architectures": ["Glm4vForConditionalGeneration"],
        "model_type": "glm4v",
        "max_position_embeddings": 65536,
        "vision_config": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = [
        planner.plan(tmp_path, gpu="H100", vllm_version=release).to_dict()["resolved"]
        for release in ("0.32.0", "0.33.0")
    ]
    assert [65536, 32768] == [resolved["max_model_len"] for resolved in found]


def test_modernbert_had_half_of_its_mlp_on_every_rank(tmp_path: Path) -> None:
    """Before 0.29 gate and up, 2 x 4,096 rows of 1,024 in each of 4 layers, in full."""
    config = {
        "architectures": ["ModernBertModel"],
        "model_type": "modernbert",
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    old = weights(tmp_path, "0.28.0", config, tensor_parallel_size=2)
    new = weights(tmp_path, "0.29.0", config, tensor_parallel_size=2)
    assert 4 * (2 * 4096 * 1024) * 2 // 2 == old - new


def test_olmo_3_did_not_start_in_0_25(tmp_path: Path) -> None:
    """Transformers 5.13 had moved what vLLM 0.25 looks for."""
    olmo = {**SMALL, "architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3"}
    (tmp_path / "config.json").write_text(json.dumps(olmo))
    errors = [
        planner.plan(tmp_path, gpu="H100", vllm_version=release).error
        for release in ("0.24.0", "0.25.1", "0.26.0")
    ]
    assert [False, True, False] == [error is not None for error in errors]
    assert "KeyError: 'rope_theta'" in str(errors[1])


def test_transformers_served_ministral_3_before_vllm_had_a_class(
    tmp_path: Path,
) -> None:
    """Since the Transformers of 0.19's days; frequencies in the place of a table."""
    config = {
        "architectures": ["Ministral3ForCausalLM"],
        "model_type": "ministral3",
        "head_dim": 64,
    }
    old = weights(tmp_path, "0.19.1", config)
    new = weights(tmp_path, "0.20.0", config)
    assert TABLE - 2 * 32 * 4 == new - old
    early = planner.plan(tmp_path, gpu="H100", vllm_version="0.13.0")
    assert early.error is not None
    assert "model type `ministral3` but Transformers" in early.error.message


@each_row("name", sorted({name for name, _ in OLDER}))
def test_every_class_that_was_native_is_still_read(name: str) -> None:
    """The oldest form is that of 0.12, and the newest release has one too."""
    (before, *_) = (first for known, first in OLDER if known == name)
    release, _ = planner.engine.releases.resolve_version("0.12.0")
    change = built_otherwise(name, release)
    assert change is not None
    assert before == change.until
    assert name in readers()


def test_a_model_that_was_read_already_is_read_as_the_release_builds_it(
    tmp_path: Path,
) -> None:
    """A plan of the newest release gives its model on to a plan of an older one."""
    olmo = {**SMALL, "architectures": ["OlmoForCausalLM"], "model_type": "olmo"}
    (tmp_path / "config.json").write_text(json.dumps(olmo))
    newest = planner.plan(tmp_path, gpu="H100")
    again = planner.plan(newest.model, gpu="H100", vllm_version="0.25.1")
    own = planner.plan(tmp_path, gpu="H100", vllm_version="0.25.1")
    assert own.to_dict()["ranks"] == again.to_dict()["ranks"]
