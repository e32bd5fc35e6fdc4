vllm serve deepseek-ai/DeepSeek-V3.1 -tp 8 \
    --speculative-config.method mtp \
    --speculative-config.num_speculative_tokens 1 \
    --compilation-config.cudagraph_mode=FULL_AND_PIECEWISE \
    --no-enable-prefix-caching -O2
