sudo docker run -d --rm --gpus '"device=0,1"' --shm-size 16g -p 8080:8000 vllm/vllm-openai:latest Qwen/Qwen3-32B -tp 2 --max-model-len 32768 --reasoning-parser qwen3
