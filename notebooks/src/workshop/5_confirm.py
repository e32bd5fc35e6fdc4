# %% [markdown]
# # 5. Confirm
#
# **What you will do**: hold a plan against a real start of vLLM, and explain the difference.
#
# **What you will learn**:
#
# - write a prediction down before vLLM starts
# - find the figures of memory in vLLM's log
# - tell what a plan knows for certain from what it estimates
#
# **What you need**: lesson 1, or its key points. No GPU and no network: there is a recorded run. With a GPU or vLLM's CPU build you make your own.
#
# **Time**: 15 minutes, 9 of them for exercises.
#
# **Questions**:
#
# - "How far can I trust a plan?"
# - "Where does vLLM say how much memory it takes?"
# - "It differs by a quarter of a GiB. Is that much?"

# %% [markdown]
# ## The story
#
# Before the library pays for anything, the city's office asks: are these figures true?
# The desk's card is in use.
# So you test on a computer without a GPU, with vLLM's CPU build and a small model of the same family.
# What you learn there holds for the method, not for the speed.

# %%
import planner
from planner import learn
from planner.presentation.certainty import overall_sentence
from planner.widgets.run_panel import RunPanel

# %% [markdown]
# Some words you will meet.

# %%
learn.words("exact", "formula", "measured", "assumed", "block")

# %% [markdown]
# ## Predict: a small model on a processor
#
# The test uses Qwen3-0.6B in float32, 4 bytes for each number.
# The computer has 23.5 GiB, and vLLM may take 0.3 of it.
# How large is the KV cache?

# %%
guess = learn.predict("KV cache on a processor", ...)
guess

# %% [markdown]
# ## Run: the plan, then the start
#
# First the plan for that computer.

# %%
small = learn.checkpoint(5)
small

# %% [markdown]
# ### Exercise 5.1: Before it starts (2 minutes)
#
# How large are the weights, and how much memory does vLLM ask for in all?

# %% tags=["learner"]
learn.exercise("5.1").check(weights=..., requested=...)

# %% tags=["solution"]
learn.exercise("5.1").check(
    weights=small.limiting_rank.weights_bytes,
    requested=small.limiting_rank.requested_memory_bytes,
)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("5.1").solution()

# %% [markdown]
# Now the start.
# This one was recorded: vLLM really ran, on the day that the label names, and nothing is started here.
# The log is kept as vLLM wrote it; the comparison is computed from it now.

# %%
run = learn.recorded()
run

# %% [markdown]
# Your guess beside the estimate:

# %%
guess.reveal(small.limiting_rank.available_kv_cache_bytes)

# %% [markdown]
# ## Investigate: vLLM's own words
#
# Two lines of the log tell nearly everything.

# %%
run.said("Auto set", "KV cache size")

# %% [markdown]
# ### Exercise 5.2: Read the log (2 minutes)
#
# How large is the KV cache that vLLM made, and how many tokens does it hold?

# %% tags=["learner"]
learn.exercise("5.2").check(kv_cache=..., tokens=...)

# %% tags=["solution"]
learn.exercise("5.2").check(kv_cache="2.61 GiB", tokens=12160)

# %% [markdown] tags=["solution"]
# The lines again:

# %% tags=["solution"]
learn.exercise("5.2").solution()

# %% [markdown]
# `planner.read_log` finds the figures by itself, in logs of many releases.

# %%
planner.read_log(run.log_text).to_dict()

# %% [markdown]
# ### Exercise 5.3: Explain the difference (2 minutes)
#
# The plan said more blocks than vLLM had.
# How many blocks did vLLM have?
# And why fewer than planned?
#
# - `a`: a block takes more bytes than planned
# - `b`: the model has more layers than planned
# - `c`: everything but the KV cache took more memory than estimated, so less was left
# - `d`: random weights are smaller than real ones

# %% tags=["learner"]
learn.exercise("5.3").check(blocks=..., cause=...)

# %% tags=["solution"]
learn.exercise("5.3").check(blocks=95, cause="c")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("5.3").solution()

# %% [markdown]
# One start is one case.
# On GPUs, the planner was held against many starts that others have published; `docs/accuracy.md` lists each.
# For comparison, the last sentence has a rule of thumb: the same few GiB for everything but weights and KV cache.

# %%
overall_sentence()

# %% [markdown]
# ## Modify: your own start
#
# On a computer with vLLM, the panel starts it with exactly the plan's arguments and lays what it measures over the estimate.
# It takes minutes, downloads nothing, and Stop ends it at once.
# Without vLLM it says how to install it.
# `start_here()` is a small plan for this computer: its GPU, or its processor where there is none.

# %%
RunPanel(learn.start_here())

# %% [markdown]
# ## Make: room for a test
#
# ### Exercise 5.4: Make room for a test (3 minutes)
#
# Four colleagues test the small model at once, each with up to 4,096 tokens.
# Make a plan for the computer of the record that holds all of that.
# Other programs run there too: leave `gpu_memory_utilization` at 0.4 or below.
# Start from `small.changed(...)`.

# %% tags=["learner"]
mine = ...
learn.exercise("5.4").check(plan=mine)

# %% tags=["solution"]
mine = small.changed(max_model_len=4096, gpu_memory_utilization=0.36)
learn.exercise("5.4").check(plan=mine)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `Free memory on device cuda:0 (…/… GiB) on startup is less than desired GPU memory utilization`
#
#   Another program holds memory of the GPU.
#   **Try first**: end it, or a lower `gpu_memory_utilization`.
# - `Available memory on node 0 (…/… GiB) on startup is less than desired CPU memory utilization`
#
#   The computer has less free memory than the share asks for.
#   **Try first**: a lower `gpu_memory_utilization`: on a processor it is a share of the computer's memory.
#
# ## Key points
#
# - Predict, run, compare: a plan is a claim that one start can check.
# - What a token costs, and what a block holds, is exact; how much memory is left for them is an estimate with a range.
# - vLLM's log says what it took, what is left for the KV cache, and how many tokens that is.
# - A difference has a place: find the line that is off before you change a setting.
#
# ## On your own
#
# Do you have a log of vLLM?
# `planner confirm --log FILE` compares it with the plan that belongs to it.
#
# ## In practice
#
# What your own starts measure is kept on your computer, and later plans of the same start use it.
# The first start of a model also compiles it, which takes longer; memory is the same.
# Random weights are enough for memory: their shapes decide, not their values.
#
# ## Further reading
#
# - `docs/confirm.md` says what is asked of vLLM, and what is kept.
# - `docs/how-it-counts.md`, "On a processor", says what vLLM's CPU build does otherwise.
# - `docs/accuracy.md` lists published starts on real GPUs, each beside its plan.
#
# How you stand in this lesson:

# %%
learn.progress(5)

# %% [markdown]
# ## Next
#
# **6. A capacity plan**: the whole city may ask now.
# Which cards, how many, and what do they cost?
# Before you go on: which figure of a plan would you check first on your own server?
