# %% [markdown]
# # vLLM memory planner

# %%
from planner import Explorer

# %%
Explorer()
