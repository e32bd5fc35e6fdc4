resource "kubernetes_deployment" "vllm" {
  spec {
    template {
      spec {
        container {
          image = "vllm/vllm-openai:v0.11.0"
          args  = ["--model", var.model, "--max-model-len", "8192"]
          resources { limits = { "nvidia.com/gpu" = "1" } }
        }
      }
    }
  }
}
variable "model" { default = "Qwen/Qwen3-4B" }
