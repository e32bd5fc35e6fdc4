cat > start.sh <<EOF
#!/bin/bash
vllm serve Qwen/Qwen3-14B --max-model-len 10000
EOF
chmod +x start.sh
