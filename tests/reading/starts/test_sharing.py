"""Starts of one text on the same GPU."""

import pytest

import planner
from planner.reading.checking import checks_of
from planner.units import format_gib

SERVICE = """  {name}:
    image: vllm/vllm-openai:v0.10.0
    command: --model {model} --gpu-memory-utilization {share}
    deploy: {{resources: {{reservations: {{devices: [{{device_ids: ["{device}"]}}]}}}}}}
"""


def compose(first: float, second: float, device: int = 0) -> str:
    """Two services, the first on GPU 0."""
    chat = {"name": "chat", "model": "Qwen/Qwen3-8B", "share": first, "device": 0}
    embed = {"name": "embed", "model": "Qwen/Qwen3-Embedding-0.6B", "share": second}
    services = (chat, embed | {"device": device})
    return "services:\n" + "".join(SERVICE.format(**one) for one in services)


def answers(text: str) -> list[str]:
    """What `planner check` says of each start on an L40S (44.42 GiB)."""
    return [str(row.answer) for row in checks_of(text, "L40S").rows]


def test_a_start_has_what_those_before_it_leave() -> None:
    """0.6 and 0.5 are more than one card, 0.6 and 0.3 are not, two cards are free."""
    assert answers(compose(0.6, 0.5)) == ["starts", "does not start"]
    assert answers(compose(0.6, 0.3)) == ["starts", "starts"]
    assert answers(compose(0.6, 0.5, device=1)) == ["starts", "starts"]


def test_variables_of_a_shell_name_gpus_too() -> None:
    """In vLLM's words, with what is held."""
    line = "CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-8B --port {}\n"
    one, other = checks_of(line.format(1) + line.format(2), "L40S").rows

    assert one.answer == "starts"
    assert "Free memory on device" in other.reason
    assert "On GPU 1 the starts before it hold" in other.reason


def test_a_reading_says_that_it_is_not_alone() -> None:
    """Nothing is planned for that."""
    second = planner.read(compose(0.6, 0.5), start=2)

    assert "Start 1 of this text runs on the same GPU" in " ".join(second.notes)


VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B "
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.5 data.max_prompt_length=512 "
    "data.max_response_length=1536 actor_rollout_ref.hybrid_engine={}"
)
OPENRLHF = (
    "python -m openrlhf.cli.train_ppo_ray --pretrain Qwen/Qwen3-8B "
    "--vllm_num_engines 2 --vllm_gpu_memory_utilization 0.5 --prompt_max_len 1024 "
    "--generate_max_len 1024"
)


@pytest.mark.parametrize(
    ("text", "trainer", "sleeps"),
    [
        (VERL.format("true"), "verl", False),
        (VERL.format("false"), None, False),
        (f"{OPENRLHF} --colocate_all_models --vllm_enable_sleep", "OpenRLHF", True),
        (OPENRLHF, None, False),
    ],
)
def test_what_is_left_for_training_beside_vllm(
    text: str, trainer: str | None, sleeps: bool
) -> None:
    """Half of an H100's 79.19 GiB is 39.60, less what vLLM takes outside of it."""
    found = planner.read(text).explain("H100")
    said = [one for one in found.findings if "trains on the same GPU" in one]
    held = sum(
        rank.requested_memory_bytes + rank.outside_bytes for rank in found.plan.ranks
    )
    left = format_gib(found.plan.gpu.total_memory_bytes - held)

    assert (trainer is not None) == bool(said)
    assert all(one.startswith(f"{trainer} trains") for one in said)
    assert all(f"{left} of 79.19 GiB are left for it" in one for one in said)
    assert all(("while vLLM sleeps" in one) is sleeps for one in said)
