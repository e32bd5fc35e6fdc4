# %% [markdown]
# # vLLM memory planner

# %%
from vllm_memory_planner import Explorer

# %%
Explorer()
