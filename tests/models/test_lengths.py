"""How long a request may be."""

import pytest

from planner.engine.environment import Environment
from planner.engine.releases import Release
from planner.errors import Refused, UnknownArchitecture
from planner.models.lengths import resolve_max_model_len
from planner.units import GIB
from tests.configs import LLAMA_8B, architecture, gpu

A100 = gpu(device_name="NVIDIA A100-SXM4-80GB", compute_capability=(8, 0))
B200 = gpu(
    device_name="NVIDIA B200",
    compute_capability=(10, 0),
    total_memory_bytes=int(178.35 * GIB),
)
L4 = gpu(
    device_name="NVIDIA L4", compute_capability=(8, 9), total_memory_bytes=22 * GIB
)
GB10 = gpu(
    device_name="NVIDIA GB10", compute_capability=(12, 1), total_memory_bytes=121 * GIB
)


def length(
    asked: int | str | None, env: Environment | None = None, **config: object
) -> int:
    """Resolve max_model_len for a changed Llama."""
    model = architecture(LLAMA_8B, **config)
    return resolve_max_model_len(asked, model, env or Environment())


def test_the_length_comes_from_the_config() -> None:
    """llama3 scaling is in max_position_embeddings already; linear is not."""
    assert 131072 == length(None)
    assert 131072 == length("auto")
    assert 524288 == length(None, rope_scaling={"type": "linear", "factor": 4.0})
    assert 131072 == length(
        None,
        rope_scaling={
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    )


def test_longrope_starts_with_its_short_length() -> None:
    """original_max_position_embeddings unless more is asked for."""
    scaling = {"rope_type": "longrope", "original_max_position_embeddings": 4096}
    facts = {"rope_scaling": scaling, "original_max_position_embeddings": 4096}
    assert 4096 == length(None, **facts)
    assert 65536 == length(65536, **facts)


def test_more_than_the_model_was_made_for_is_refused() -> None:
    """vLLM's sentence, unless its environment variable allows it."""
    with pytest.raises(Refused, match=r"max_model_len \(200000\) is greater than"):
        length(200000)
    assert 200000 == length(200000, Environment(allow_long_max_model_len=True))
    assert 200000 == length(
        200000, model_max_length=200000, max_position_embeddings=8192
    )


def test_longrope_was_taken_in_full() -> None:
    """From 0.11.1 on the length before stretching is the default."""
    scaling = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [4.0]}
    model = architecture(
        {
            **LLAMA_8B,
            "rope_scaling": scaling,
            "original_max_position_embeddings": 4096,
        }
    )
    found = [
        resolve_max_model_len(None, model, Environment(), Release(number))
        for number in ((0, 11, 0), (0, 11, 1))
    ]
    assert [131072, 4096] == found


def test_the_refusal_of_a_long_request_was_shorter() -> None:
    """Until 0.10.1 it ends with the variable, and prints a whole number."""
    model = architecture(LLAMA_8B)
    with pytest.raises(
        Refused,
        match=r"=131072 or model_max_length=None in model's config.json\)\. This may "
        r"lead to .*VLLM_ALLOW_LONG_MAX_MODEL_LEN=1$",
    ):
        resolve_max_model_len(200000, model, Environment(), Release((0, 10, 1)))
    with pytest.raises(Refused, match=r"=131072\.0 or .* out-of-bounds error\.$"):
        resolve_max_model_len(200000, model, Environment())


@pytest.mark.parametrize("factor", ["8", 0, -2.0])
def test_a_factor_is_a_number(factor: object) -> None:
    """Text times a length would be a text as long."""
    with pytest.raises(UnknownArchitecture, match="factor is no number above 0"):
        length(None, rope_scaling={"type": "linear", "factor": factor})
