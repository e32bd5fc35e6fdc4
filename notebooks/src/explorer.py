# %% [markdown]
# # Explore vLLM's GPU memory
#
# **What you will do**: pick a model and a GPU, move the controls until vLLM would no longer start, and read why.
#
# **What you need**: nothing else. No GPU, no network, no account; about five minutes.
#
# Every name on the screen is vLLM's own, so you can paste what you find into `vllm serve` and find it again in vLLM's log.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
from traitlets import dlink

import planner
from planner import Explorer, learn
from planner.app.widgets.run_panel import RunPanel

# %% [markdown]
# ## The explorer
#
# Raise `max_model_len` and watch what is left after one request; choose a smaller GPU and watch the KV cache shrink.

# %%
explorer = Explorer()
explorer

# %% [markdown]
# ## The same in one line
#
# `planner.plan` takes vLLM's own argument names and shows its answer: verdict, memory lines, and the command to type.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")

# %% [markdown]
# Does it fit on a smaller card?
# A plan that does not fit is a useful answer too, with the sentence that vLLM would print.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4")

# %% [markdown]
# Let vLLM choose the longest context that fits.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4", max_model_len="auto")

# %% [markdown]
# A large model on four GPUs, as a picture.

# %%
planner.plan(
    "meta-llama/Llama-3.1-70B-Instruct", gpu="H100", tensor_parallel_size=4
).figure()

# %% [markdown]
# Continue from any plan with the controls.

# %%
planner.plan(
    "Qwen/Qwen3-30B-A3B",
    gpu="H200",
    tensor_parallel_size=2,
    enable_expert_parallel=True,
).explore()

# %% [markdown]
# ## Bring what you have
#
# Paste a command, a container, a manifest, a log or an error into the box of the explorer, or into a cell that begins with `%%vllm`.
# Nothing of it is run; what the text does not tell, such as the GPU, stands on the first line.

# %%
# %load_ext planner

# %%
# %%vllm --gpu L40S
# docker run --gpus 1 -p 8000:8000 vllm/vllm-openai:v0.33.0 \
#   --model Qwen/Qwen3-14B --max-model-len 32768 \
#   --enable-auto-tool-choice --tool-call-parser hermes

# %% [markdown]
# ## Confirm it
#
# A plan can be checked: Run starts vLLM with exactly its arguments, in a process of its own, and compares what vLLM measures with the estimate.
# The panel below is for the plan on the screen of the first explorer, `explorer.plan`, and follows its controls.
# The weights are random numbers of the right shapes, so nothing is downloaded.
# It says which vLLM it would start, or how to install one; Stop ends it at once.

# %%
run = RunPanel(explorer.plan)
follow = dlink((explorer, "plan"), (run, "plan"))
run

# %% [markdown]
# Run needs the planned GPU on this machine; `planner.confirm(explorer.plan)` does the same in a cell.
#
# "Ask vLLM" needs no GPU: the installed vLLM starts on a simulated one and after about a minute shows its measurements beside the estimate.
# It needs Linux, a C compiler and vLLM's build for NVIDIA GPUs in an environment of its own; `PLANNER_VLLM_PYTHON` names that environment's Python.
# In a cell it is `explorer.plan.dry_run()`, and `explorer.plan.dry_run().plan()` is the plan with vLLM's own figures.

# %% [markdown]
# ## Without the planned GPU
#
# `start_here()` is a small plan for this machine: for its GPU, or for its processor if it has no GPU, which needs vLLM's CPU build.

# %%
small = learn.start_here()
small

# %% [markdown]
# Its panel is like the one above, for this plan alone.

# %%
RunPanel(small)
