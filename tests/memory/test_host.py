"""The CPU memory of each machine: what is kept there, and whether it fits."""

import pytest

import planner
from planner.memory.account import Basis, HostLine, Per
from planner.memory.host.nodes import gpus_of_a_node, node_accounts, nodes
from planner.planning.result import Outcome
from planner.show.charts.parts import spoken
from planner.show.host import host_tables
from planner.show.verdict import verdict
from planner.units import GIB, MIB, format_gib

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def _line(name: str, size_bytes: int, per: Per, basis: Basis = Basis.EXACT) -> HostLine:
    return HostLine(name=name, size_bytes=size_bytes, basis=basis, why="", per=per)


def test_each_worker_engine_and_node_counts_as_often_as_it_lives_there() -> None:
    """Two engines of 2 stages x 2 ranks on machines of 4 GPUs.

    A machine: 2 x 10 + 2 x 20 of its workers, 1 x 5 of its engine, 3 once = 68 bytes.
    """
    (account,) = node_accounts(
        nodes(tensor=2, stages=2, engines=2, gpus=4),
        [(_line("weights", 10, Per.WORKER),), (_line("weights", 20, Per.WORKER),)],
        [_line("cache", 5, Per.ENGINE), _line("server", 3, Per.NODE)],
        None,
    )

    assert account.nodes == (0, 1)
    assert [line.size_bytes for line in account.lines] == [60, 5, 3]
    assert account.needed_bytes == 68
    assert account.left_bytes is None


def test_machines_that_differ_have_accounts_of_their_own() -> None:
    """Two stages on two machines: the first keeps 2 x 10 bytes, the second 2 x 20."""
    first, second = node_accounts(
        nodes(tensor=2, stages=2, engines=1, gpus=2),
        [(_line("weights", 10, Per.WORKER),), (_line("weights", 20, Per.WORKER),)],
        [_line("cache", 5, Per.ENGINE)],
        capacity_bytes=100,
    )

    assert (first.needed_bytes, first.left_bytes) == (25, 75)
    assert (second.needed_bytes, second.engines) == (40, 0)


@pytest.mark.parametrize(
    ("total", "given", "nnodes", "expected"),
    [(4, None, None, 4), (16, None, None, 8), (16, 4, 2, 4), (16, None, 4, 4)],
)
def test_gpus_of_a_machine(total, given, nnodes, expected) -> None:
    """As given, as nnodes divides them, else at most eight."""
    assert gpus_of_a_node(total, given, nnodes) == expected


def test_token_ids_are_kept_for_every_request_at_its_full_length() -> None:
    """100 requests x 4,096 tokens x 4 bytes by the second runner, pinned in 2 MiB.

    The first keeps a flag of one byte beside each since 0.11.0, and pins neither.
    """
    asked = {"max_num_seqs": 100, "max_model_len": 4096}
    newest = planner.plan(LLAMA_8B, **asked)
    first = planner.plan(LLAMA_8B, vllm_version="0.12.0", **asked)
    oldest = planner.plan(LLAMA_8B, vllm_version="0.9.2", **asked)

    held = [plan.host[0].lines[0].size_bytes for plan in (newest, first, oldest)]
    assert held == [2 * MIB, 100 * 4096 * 5, 100 * 4096 * 4]


def test_a_plan_without_such_settings_does_not_speak_of_it() -> None:
    """Every start keeps token ids; that alone is not worth a reader's time."""
    plan = planner.plan(LLAMA_8B)

    assert "CPU memory" not in str(plan)
    assert plan.to_dict()["host"][0]["needed_bytes"] == plan.host[0].needed_bytes > 0


def test_a_machine_too_small_is_no_fit() -> None:
    """2 workers of 8 GiB and 20 GiB of blocks: more than 32 GiB."""
    asked = {
        "tensor_parallel_size": 2,
        "cpu_offload_gb": 8,
        "kv_offloading_size": 20,
        "max_model_len": 4096,
    }
    small = planner.plan(LLAMA_8B, node_memory_gib=32, **asked)
    large = small.changed(node_memory_gib=64)

    assert small.outcome is Outcome.DOES_NOT_FIT
    assert small.error is not None
    assert small.error.kind == "host_memory"
    assert "offloaded KV blocks 20.00 GiB" in small.error.message
    assert "vLLM says" not in str(small)
    assert large.fits
    assert "of 64.00 GiB" in str(large)
    assert "CPU memory" in large._repr_mimebundle_()["text/html"]


def test_the_machine_is_told_to_the_planner_alone() -> None:
    """vLLM has no such arguments: no command names them, a changed plan keeps them."""
    plan = planner.plan(LLAMA_8B, node_memory_gib=64, node_gpus=1)

    assert "node" not in plan.command()
    assert "node" not in planner.export.python(plan)
    assert plan.changed(max_model_len=4096).host[0].capacity_bytes == 64 * GIB


def test_older_releases_refuse_swap_space_beyond_70_percent() -> None:
    """8 ranks x 4 GiB of 40 GiB are 80 %, 0.5 GiB each are not; 0.18.0 asks no more."""
    asked = {"tensor_parallel_size": 8, "node_memory_gib": 40, "max_model_len": 4096}
    old = planner.plan(LLAMA_8B, vllm_version="0.17.1", **asked)
    first = planner.plan(LLAMA_8B, vllm_version="0.9.2", **asked)

    words = "of the {} GiB total CPU memory is allocated for the swap space."
    assert old.error is not None
    assert first.error is not None
    assert old.error.message == f"Too large swap space. 32.0 GiB out {words}".format(
        "40.0"
    )
    assert "32.00 GiB out of the 40.00 GiB" in first.error.message
    less = old.changed(swap_space=0.5)
    assert less.error is None or less.error.kind != "refused"
    assert "--swap-space 0.5" in less.command()
    with pytest.raises(planner.PlannerError, match="swap_space any more"):
        planner.plan(LLAMA_8B, swap_space=4)


@pytest.mark.parametrize("value", [-1, True, "much", 1e300])
def test_a_machine_s_memory_is_a_number(value) -> None:
    """GiB from 0."""
    with pytest.raises(planner.PlannerError, match="node_memory_gib="):
        planner.plan(LLAMA_8B, node_memory_gib=value)


def test_every_way_to_show_a_plan_shows_the_machine() -> None:
    """Text, page, screen reader, reports and tables name the line."""
    plan = planner.plan(
        LLAMA_8B, cpu_offload_gb=2, max_model_len=4096, node_memory_gib=64
    )
    shown = (
        str(plan),
        plan._repr_mimebundle_()["text/html"],
        spoken(plan),
        planner.export.html(plan),
        planner.export.markdown(plan),
        planner.export.csv(plan),
        host_tables(plan),
    )

    assert all("offloaded weights" in text for text in shown)
    assert all("load time" in text for text in (shown[0], shown[3], shown[4]))


def test_a_verdict_names_the_machine_s_memory() -> None:
    """What is missing there, not what the GPU has left."""
    plan = planner.plan(
        LLAMA_8B, cpu_offload_gb=8, max_model_len=4096, node_memory_gib=8
    )
    said = verdict(plan)
    (account,) = plan.host

    assert said.margin == format_gib(account.certain_bytes - 8 * GIB)
    assert "CPU memory" in said.sentence
    assert all(
        "node_memory_gib" not in item.title for item in planner.advise(plan).items
    )


def test_the_attached_machine_s_memory_is_known() -> None:
    """A GPU of this machine tells it; what is typed counts more."""
    card = planner.GPU.named("H100", host_memory_bytes=128 * GIB)
    plan = planner.plan(LLAMA_8B, gpu=card)

    assert plan.host[0].capacity_bytes == 128 * GIB
    assert plan.changed(node_memory_gib=64).host[0].capacity_bytes == 64 * GIB


def test_a_gpu_that_shares_the_machine_s_memory_leaves_only_the_rest() -> None:
    """GB10: one to a machine, whose memory is the GPU's own; its budget is charged.

    Assumed, so that nothing is refused for it; offloaded blocks come out of the rest.
    """
    plan = planner.plan("Qwen/Qwen3-8B", gpu="GB10", tensor_parallel_size=2)
    account = plan.host[0]
    lines = {line.name: line for line in account.lines}
    assert [(each.gpus, each.nodes) for each in plan.host] == [(1, (0,)), (1, (1,))]
    assert account.capacity_bytes == plan.gpu.total_memory_bytes
    budget = lines["GPU memory"]
    assert budget.size_bytes == plan.ranks[0].requested_memory_bytes
    assert budget.basis is Basis.ASSUMED
    assert plan.error is None
    assert any("stays in the same memory" in note for note in plan.notes)
