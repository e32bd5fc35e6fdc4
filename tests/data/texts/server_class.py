from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.engine.async_llm_engine import AsyncLLMEngine
class Config:
    MODEL_ID = "Qwen/Qwen2.5-14B-Instruct"
    MAX_LEN = 16_384
cfg = Config()
args = AsyncEngineArgs(model=cfg.MODEL_ID, max_model_len=Config.MAX_LEN, tensor_parallel_size=int(os.getenv("TP", "2")))
engine = AsyncLLMEngine.from_engine_args(args)
