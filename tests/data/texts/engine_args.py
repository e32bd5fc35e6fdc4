import os
from vllm import AsyncEngineArgs, AsyncLLMEngine

options = {"enforce_eager": True, "max_num_seqs": 32}
args = AsyncEngineArgs("mistralai/Mistral-7B-Instruct-v0.3", dtype="bfloat16",
                       max_model_len=int(os.environ["LENGTH"]), **options)
engine = AsyncLLMEngine.from_engine_args(args)
