# %% [markdown]
# # Explore vLLM's GPU memory
#
# **What you will do**: pick a model and a GPU, move the controls until vLLM would no longer start, and read why.
#
# **What you need**: nothing else. No GPU, no network, no account; about five minutes.
#
# Every name on the screen is vLLM's own, so you can paste what you find into `vllm serve` and find it again in vLLM's log.

# %%
import planner
from planner.widgets.explorer import Explorer

# %% [markdown]
# ## The explorer
#
# Raise `max_model_len`, or choose a smaller GPU, and watch the KV cache shrink.

# %%
Explorer()

# %% [markdown]
# ## The same in one line
#
# `planner.plan` takes vLLM's own argument names and shows its answer: verdict, memory lines, and the command to type.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")

# %% [markdown]
# Does it fit on a smaller card?
# Not fitting is an answer too, with the sentence that vLLM would print.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4")

# %% [markdown]
# Let vLLM choose the longest context that fits.

# %%
planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4", max_model_len="auto")

# %% [markdown]
# A large model over four GPUs, as a picture.

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
