# The embedding service of the search team.
FROM --platform=linux/amd64 vllm/vllm-openai:v0.25.1
ENV VLLM_LOGGING_LEVEL=WARNING HF_HUB_OFFLINE=1
COPY models /models
EXPOSE 8000
CMD ["--model", "BAAI/bge-m3", "--runner", "pooling", \
     "--max-model-len", "8192", "--gpu-memory-utilization", "0.3"]
