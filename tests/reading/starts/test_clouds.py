"""What commands of clouds and clusters deploy."""

from __future__ import annotations

import planner
from tests.rows import each_row

_IMAGE = "vllm/vllm-openai:v0.10.0"
ROWS = (
    f"gcloud run deploy x --image={_IMAGE} --gpu=2 --gpu-type=nvidia-l4 "
    '--args="--model=org/m,--max-model-len=77" --set-env-vars=VLLM_USE_V1=1,A=b',
    f"gcloud beta run deploy x --image {_IMAGE} --gpu 2 --gpu-type nvidia-l4 "
    "--command=vllm --args=serve,org/m,--max-model-len,77 --set-env-vars VLLM_USE_V1=1",
    f"runpodctl create pod --imageName {_IMAGE} --gpuType 'NVIDIA L4' --gpuCount 2 "
    "--env VLLM_USE_V1=1 --args '--model org/m --max-model-len 77'",
)


@each_row("text", ROWS)
def test_a_deployment_is_a_start(text: str) -> None:
    """With its image's release, its GPUs, and what the container is given."""
    found = planner.read(text)

    assert (found.model, found.vllm_version) == ("org/m", "0.10.0")
    assert (found.to_dict()["inputs"]["gpu"], found.gpus) == ("L4", 2)
    assert found.env == {"VLLM_USE_V1": "1"}
    assert dict(found.engine_args) == {"max_model_len": 77}
    assert found.text(max_model_len=8) == text.replace("77", "8")
