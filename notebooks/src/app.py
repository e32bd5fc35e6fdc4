# %% [markdown]
# # vLLM memory planner
#
# Pick a model and a GPU, move the controls, and read what vLLM would do with the memory.

# %%
from planner.widgets.explorer import Explorer

# %%
Explorer()
