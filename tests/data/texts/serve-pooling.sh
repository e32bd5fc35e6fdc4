vllm serve BAAI/bge-m3 --runner pooling --max-model-len 8192 --trust-remote-code
