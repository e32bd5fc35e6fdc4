# %% [markdown]
# # vLLM memory planner
#
# Pick a model and a GPU, move the controls, and see what vLLM would do with the memory.

# %%
from planner import Explorer

# %%
Explorer()
