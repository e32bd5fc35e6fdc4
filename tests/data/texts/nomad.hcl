job "vllm" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image = "vllm/vllm-openai:v0.11.0"
        args = ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384"]
      }
      resources { device "nvidia/gpu" { count = 1 } }
    }
  }
}