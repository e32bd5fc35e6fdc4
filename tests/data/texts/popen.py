import subprocess

server = subprocess.Popen(
    [
        "vllm", "serve", "Qwen/Qwen3-8B",
        "--max-model-len", "8192",
        "--enforce-eager",
    ],
    env={"VLLM_LOGGING_LEVEL": "DEBUG"},
)
