import ray
from ray.data.llm import build_llm_processor, vLLMEngineProcessorConfig

config = vLLMEngineProcessorConfig(
    model_source="meta-llama/Llama-3.1-8B-Instruct",
    engine_kwargs=dict(
        enable_chunked_prefill=True,
        max_num_batched_tokens=4096,
        max_model_len=16384,
    ),
    concurrency=4,
    batch_size=64,
    accelerator_type="L4",
)
processor = build_llm_processor(config, preprocess=lambda row: dict(messages=row["messages"]))
