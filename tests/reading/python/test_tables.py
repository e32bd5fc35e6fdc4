"""Functions and classes of Python that start vLLM."""

from __future__ import annotations

import planner
from planner.reading.starts.frameworks import frameworks
from tests.rows import each_row

ROWS = {
    "from vllm import LLM as Engine\nEngine('a/b', max_model_len=9)": "llm",
    "from vllm import EngineArgs as E\nE(model='a/b', max_model_len=9)": "engine",
    "from ray.serve.llm import LLMConfig\nLLMConfig(model_loading_config=dict("
    "model_id='x', model_source='a/b'), engine_kwargs={'max_model_len': 9})": "serve",
    "from unsloth import FastLanguageModel as F\nF.from_pretrained('a/b', "
    "max_seq_length=9, fast_inference=True, load_in_4bit=False)": "llm",
    "from trl import GRPOConfig, GRPOTrainer\nc = GRPOConfig(use_vllm=True, "
    "vllm_max_model_length=9, vllm_mode='colocate')\nGRPOTrainer('a/b', args=c)": "llm",
    "from langchain_community.llms import VLLM\nVLLM(model='a/b', top_k=3, "
    "vllm_kwargs={'max_model_len': 9})": "llm",
    "from llama_index.llms.vllm import Vllm\nVllm(model='a/b', max_new_tokens=3, "
    "vllm_kwargs={'max_model_len': 9})": "llm",
    "from outlines import models\nmodels.vllm('a/b', max_model_len=9)": "llm",
    "from lighteval.models.vllm.vllm_model import VLLMModelConfig\nVLLMModelConfig("
    "model_name='a/b', max_model_length=9, use_chat_template=True)": "llm",
    "import lm_eval\nlm_eval.simple_evaluate(model='vllm', "
    "model_args='pretrained=a/b,max_model_len=9')": "llm",
    "import lm_eval\nlm_eval.simple_evaluate(model='vllm', "
    "model_args={'pretrained': 'a/b', 'max_model_len': 9})": "llm",
    "from beam.integrations import VLLM, VLLMArgs\nVLLM(gpu='L4', "
    "vllm_args=VLLMArgs(model='a/b', max_model_len=9))": "serve",
    "from swift.llm import VllmEngine\nVllmEngine('a/b', max_model_len=9)": "llm",
    "pod = {'image': 'vllm/vllm-openai:v0.11.0', 'args': ['--model', 'a/b', "
    "'--max-model-len', '9']}": "serve",
    "from sagemaker.model import Model\nModel(image_uri=x, env={'HF_MODEL_ID': 'a/b', "
    "'OPTION_ROLLING_BATCH': 'vllm', 'OPTION_MAX_MODEL_LEN': '9'})": "serve",
    "import docker\ndocker.from_env().containers.run('vllm/vllm-openai:v0.11.0', "
    "['--model', 'a/b', '--max-model-len', '9'])": "serve",
}
NONE = (
    "from crewai import LLM\nllm = LLM(model='openai/gpt-4o')",
    "from unsloth import FastLanguageModel\nFastLanguageModel.from_pretrained('a/b')",
    "from trl import GRPOConfig\nGRPOConfig(use_vllm=True, vllm_mode='server')",
    "from langchain_community.llms import VLLMOpenAI\nVLLMOpenAI(model_name='a/b')",
    "import docker\ndocker.from_env().containers.run('ollama/ollama', ['serve'])",
    "import logging\nlogging.info('start it: vllm serve a/b')\nprint('vllm serve a/b')",
)


@each_row("row", ROWS.items(), ids=lambda row: row[0])
def test_each_is_a_start_with_the_arguments_of_vllm(
    row: tuple[str, str],
) -> None:
    """By vLLM's names, changed where they stand."""
    text, entrypoint = row
    found = planner.read(text)

    assert (found.model, found.num_starts) == ("a/b", 1)
    assert found.entrypoint == entrypoint
    assert found.engine_args == {"max_model_len": 9}
    assert planner.read(found.text(max_model_len=12)).engine_args["max_model_len"] == 12
    if "OPTION_" not in text:  # variables are added where the platform is set up
        added = planner.read(found.text(gpu_memory_utilization=0.5)).engine_args
        assert added == {"max_model_len": 9, "gpu_memory_utilization": 0.5}


@each_row("text", NONE)
def test_what_only_looks_so_is_none(text: str) -> None:
    """Another package's class, a client, words that are printed."""
    try:
        found = planner.read(text)
    except planner.PlannerError:
        return

    assert found.start is None


def test_a_trainer_in_code_is_named_as_in_its_settings() -> None:
    """TRL trains on the GPUs of its colocated vLLM, and takes 0.3 of each for it."""
    code = "from trl import GRPOConfig\nGRPOConfig(use_vllm=True, {})"
    found = planner.read(code.format("vllm_mode='colocate'"))
    row = next(one for one in frameworks() if one.name == "TRL")

    assert found.start is not None
    assert "TRL" == found.start.trainer
    assert {*row.notes} <= {*found.notes}
    (said,) = [one for one in found.open if one.startswith("gpu_memory_utilization")]
    assert "gpu_memory_utilization is not given: TRL takes 0.3." == said
    told = planner.read(code.format("vllm_gpu_memory_utilization=0.4"))
    assert not any(one.startswith("gpu_memory_utilization") for one in told.open)
