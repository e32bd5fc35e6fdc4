"""Connectors that hand KV blocks to others: what they keep in CPU memory."""

import pytest

import planner
from planner.errors import PlannerError, UnknownArchitecture

MODEL = "Qwen/Qwen3-8B"


def config(name: str, **more: object) -> dict[str, object]:
    """A connector in the role of both sides."""
    return {"kv_connector": name, "kv_role": "kv_both", **more}


def kept(plan: planner.Plan) -> dict[str, int]:
    """Bytes in CPU memory by line."""
    return {line.name: line.size_bytes for one in plan.host for line in one.lines}


def test_a_connector_leaves_the_gpu_as_it_is() -> None:
    """NIXL sends the blocks that are there: nothing more on the GPU or the host."""
    plan = planner.plan(MODEL)
    connected = plan.changed(kv_transfer_config=config("NixlConnector"))

    assert connected.ranks == plan.ranks
    assert kept(connected) == kept(plan)
    assert "--kv-transfer-config" in connected.command()


def test_a_buffer_on_the_host_is_as_large_as_the_blocks() -> None:
    """kv_buffer_device=cpu: a copy of each worker's blocks."""
    asked = config("NixlConnector", kv_buffer_device="cpu")
    plan = planner.plan(MODEL, kv_transfer_config=asked, tensor_parallel_size=2)
    (rank,) = plan.ranks

    copied = 2 * rank.num_blocks * rank.bytes_per_block
    assert kept(plan)["KV transfer buffers"] == copied


def test_several_connectors_keep_what_each_does() -> None:
    """10^10 bytes of OffloadingConnector, and LMCache's own 5 GB for each worker."""
    inner = [
        config(
            "OffloadingConnector", kv_connector_extra_config={"cpu_bytes_to_use": 1e10}
        ),
        config("LMCacheConnectorV1"),
    ]
    asked = config("MultiConnector", kv_connector_extra_config={"connectors": inner})
    plan = planner.plan(MODEL, kv_transfer_config=asked)

    assert kept(plan)["offloaded KV blocks"] == 10**10
    assert kept(plan)["LMCache"] == 5 * 10**9


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"kv_connector": "NixlConnector"}, "Please specify kv_role"),
        (config("NixlConnector", kv_role="both"), "Unsupported kv_role: both"),
        (config("OffloadingConnector"), "cpu_bytes_to_use must be specified"),
    ],
)
def test_what_vllm_refuses(asked, words) -> None:
    """In its words."""
    plan = planner.plan(MODEL, kv_transfer_config=asked)

    assert plan.error is not None
    assert plan.error.kind == "refused"
    assert words in plan.error.message


@pytest.mark.parametrize(
    ("model", "name", "more"),
    [
        (MODEL, "P2pNcclConnector", {}),
        (MODEL, "HiSparseConnector", {}),
        ("openai/gpt-oss-20b", "NixlConnector", {}),
        ("openai/gpt-oss-20b", "LMCacheConnectorV1", {}),
    ],
)
def test_what_is_not_modelled_is_named(model, name, more) -> None:
    """Connectors whose memory is decided elsewhere, and layers that differ."""
    with pytest.raises(UnknownArchitecture, match="kv_transfer_config"):
        planner.plan(model, kv_transfer_config=config(name), **more)


def test_earlier_connectors_are_planned_under_a_condition() -> None:
    """As those of 0.28: the blocks of layers that are alike stay as they are."""
    asked = config("NixlConnector")
    earlier = planner.plan(MODEL, vllm_version="0.21.0")
    connected = earlier.changed(kv_transfer_config=asked)
    assert connected.num_gpu_blocks == earlier.num_gpu_blocks
    (condition,) = connected.conditions
    assert condition.startswith("kv_transfer_config: what only the connectors of vLLM")
    assert not planner.plan(MODEL, kv_transfer_config=asked).conditions
    offloading = config(
        "OffloadingConnector", kv_connector_extra_config={"cpu_bytes_to_use": 10**10}
    )
    with pytest.raises(UnknownArchitecture, match="disable_hybrid_kv_cache_manager"):
        planner.plan(
            "openai/gpt-oss-20b", kv_transfer_config=offloading, vllm_version="0.21.0"
        )


def test_a_configuration_is_a_table() -> None:
    """A name alone is none."""
    with pytest.raises(PlannerError, match="kv_transfer_config="):
        planner.plan(MODEL, kv_transfer_config="NixlConnector")


@pytest.mark.parametrize(
    "name", ["openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct"]
)
def test_offloading_hands_over_every_group_as_it_is(name: str) -> None:
    """Windows and states keep their groups, as with kv_offloading_size."""
    asked = config(
        "OffloadingConnector", kv_connector_extra_config={"cpu_bytes_to_use": 1e9}
    )
    plan = planner.plan(name, gpu="H200")
    connected = plan.changed(kv_transfer_config=asked)
    assert connected.kv_groups == plan.kv_groups
    assert kept(connected)["offloaded KV blocks"] == 10**9


def test_a_connector_of_one_group_is_planned_without_the_hybrid_manager() -> None:
    """What vLLM does by itself has to be asked for: windows then keep everything."""
    one = {"disable_hybrid_kv_cache_manager": True}
    plan = planner.plan("openai/gpt-oss-20b", gpu="H100", **one)
    connected = plan.changed(kv_transfer_config=config("LMCacheConnectorV1"))
    assert connected.kv_groups == plan.kv_groups
    assert kept(connected)["LMCache"] == 5 * 10**9


@pytest.mark.parametrize(
    "more",
    [
        {"kv_connector": "NixlConnector", "kv_connector_extra_config": 1.5},
        {"kv_connector": "MultiConnector", "kv_connector_extra_config": "x"},
        *(
            {
                "kv_connector": "MultiConnector",
                "kv_connector_extra_config": {"connectors": inner},
            }
            for inner in (5, "x", [5], {"a": 1}.keys())
        ),
    ],
)
def test_parts_of_a_configuration_are_tables(more) -> None:
    """Each is named."""
    with pytest.raises(PlannerError, match=r"kv_transfer_config: .*needed, such as"):
        planner.plan(MODEL, kv_transfer_config={"kv_role": "kv_both", **more})


@pytest.mark.parametrize("size", [float("inf"), float("nan"), True, "1"])
def test_bytes_that_are_no_number_are_none(size) -> None:
    """vLLM asks for them."""
    extra = {"cpu_bytes_to_use": size}
    asked = config("OffloadingConnector", kv_connector_extra_config=extra)
    error = planner.plan(MODEL, kv_transfer_config=asked).error
    assert error is not None
    assert "cpu_bytes_to_use must be specified" in error.message
