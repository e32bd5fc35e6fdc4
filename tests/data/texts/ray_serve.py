from ray import serve
from ray.serve.llm import LLMConfig, build_openai_app

llm = LLMConfig(
    model_loading_config={"model_id": "qwen", "model_source": "Qwen/Qwen3-32B"},
    deployment_config={"autoscaling_config": {"min_replicas": 1, "max_replicas": 4}},
    accelerator_type="H100",
    engine_kwargs={"tensor_parallel_size": 2, "max_model_len": 32768},
)
serve.run(build_openai_app({"llm_configs": [llm]}))
