import modal
image = modal.Image.debian_slim(python_version="3.12").pip_install("vllm==0.11.0")
app = modal.App("x")
MODEL_NAME = "Qwen/Qwen3-8B-FP8"
N_GPU = 1
@app.function(image=image, gpu=f"H100:{N_GPU}")
@modal.web_server(port=8000)
def serve():
    import subprocess
    cmd = ["vllm", "serve", "--uvicorn-log-level=info", MODEL_NAME, "--host", "0.0.0.0", "--port", str(8000)]
    cmd += ["--enforce-eager"]
    cmd += ["--tensor-parallel-size", str(N_GPU)]
    subprocess.Popen(" ".join(cmd), shell=True)
