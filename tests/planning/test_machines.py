"""What is typed on each machine of a start over several."""

import shlex

import pytest

import planner
from planner.planning.machines import HEAD, commands, commands_text

R1 = "deepseek-ai/DeepSeek-R1"


def of(**arguments):
    """Plan DeepSeek-R1 on H100, and return its commands without the common words."""
    plan = planner.plan(R1, gpu="H100", **arguments)
    return [one.removeprefix(plan.command()).strip() for one in commands(plan)]


def test_one_machine_has_one_command() -> None:
    """Also where the arguments already say which machine it is."""
    plan = planner.plan(R1, gpu="H100", tensor_parallel_size=8)

    assert (plan.command(),) == commands(plan)
    assert plan.command() == commands_text(plan)
    assert str(plan).endswith(f"\n\n{plan.command()}")
    second = {"nnodes": 2, "node_rank": 1, "tensor_parallel_size": 16}
    assert [""] == of(**second)


def test_an_engine_over_two_machines_is_joined_by_node_rank() -> None:
    """8 x 2 = 16 GPUs: vLLM refuses them on one machine unless nnodes is given."""
    assert [
        f"--nnodes 2 --node-rank 0 --master-addr {HEAD}",
        f"--nnodes 2 --node-rank 1 --master-addr {HEAD} --headless",
    ] == of(tensor_parallel_size=8, pipeline_parallel_size=2)
    assert [
        f"--node-rank {rank} --master-addr {HEAD}{' --headless' * bool(rank)}"
        for rank in range(4)
    ] == of(tensor_parallel_size=8, pipeline_parallel_size=2, nnodes=4)


def test_engines_are_shared_out_between_machines() -> None:
    """Four engines of four GPUs: two on each machine; the second begins with rank 2."""
    local = f"--data-parallel-size-local 2 --data-parallel-address {HEAD}"

    assert [local, f"{local} --data-parallel-start-rank 2 --headless"] == of(
        tensor_parallel_size=4, data_parallel_size=4
    )


def test_before_0_11_1_ray_joins_them() -> None:
    """The first machine serves; the other gives its GPUs."""
    plan = planner.plan(
        R1,
        gpu="H100",
        vllm_version="0.10.2",
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
    )
    head, worker = commands(plan)

    assert head.startswith("ray start --head --port 6379 && vllm serve")
    assert head.endswith("--distributed-executor-backend ray")
    assert worker == f"ray start --address {HEAD}:6379 --block"


@pytest.mark.parametrize(
    "sizes",
    [
        {"tensor_parallel_size": 3, "pipeline_parallel_size": 3},
        {"tensor_parallel_size": 16, "data_parallel_size": 2},
        {"tensor_parallel_size": 8, "data_parallel_size": 4_096},
    ],
    ids=["nine GPUs", "engines of two machines each", "more than can be listed"],
)
def test_where_no_commands_are_known_that_is_said(sizes) -> None:
    """Never one command that vLLM would refuse on its machine."""
    plan = planner.plan(R1, gpu="H100", **sizes)

    assert () == commands(plan)
    assert "each machine needs its own command" in commands_text(plan)


def test_the_text_and_the_page_have_all_of_them() -> None:
    """A comment names each machine, so that all can be copied at once."""
    plan = planner.plan(
        R1, gpu="H100", tensor_parallel_size=8, pipeline_parallel_size=2
    )
    lines = str(plan).splitlines()[-5:]

    assert lines[0] == "# 2 machines; HEAD is the address of the first one"
    assert [line for line in lines if not line.startswith("#")] == [*commands(plan)]
    assert all(shlex.split(one)[:2] == ["vllm", "serve"] for one in commands(plan))
