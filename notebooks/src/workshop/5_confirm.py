# %% [markdown]
# # 5. Confirm
#
# **What you will do**: compare a plan with a real start of vLLM, and explain the difference.
#
# **What you will learn**:
#
# - write a prediction down before vLLM starts
# - find the memory figures in vLLM's log
# - distinguish what a plan knows for certain from what it estimates
# - judge how far a plan was off, and in which line
#
# **What you need**: lesson 1, or its key points. No GPU and no network: there is a recorded run. With a GPU or vLLM's CPU build you make your own.
#
# **Time**: about 25 minutes, 10 of them for exercises.
#
# **Questions**:
#
# - "How far can I trust a plan?"
# - "Where does vLLM say how much memory it takes?"
# - "It differs by a quarter of a GiB. Why?"

# %% [markdown]
# ## The story
#
# Before the library pays for anything, the city's office wants to know whether these figures are true.
# The desk's card is in use, so you test on a computer without a GPU, with vLLM's CPU build and a small model of the same family.
# You can use the same method on a GPU later.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
import planner
from planner import learn
from planner.app.widgets.run_panel import RunPanel

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

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
# ### Exercise 5.1: Before it starts (2 minutes)
#
# Two figures can be worked out before anything runs.
# The model has 0.6 billion parameters: how large are its weights?
# And how much memory does vLLM request in total?

# %% tags=["learner"]
learn.exercise("5.1").check(weights=..., requested=...)

# %% tags=["solution"]
learn.exercise("5.1").check(weights="2.24 GiB", requested="7.06 GiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("5.1").solution()

# %% [markdown]
# ## Run: the plan, then the start
#
# First the plan for that computer; find your two figures in it.

# %%
small = learn.checkpoint(5)
small

# %% [markdown]
# Your guess and the plan:

# %%
guess.reveal(
    small.limiting_rank.available_kv_cache_bytes,
    small.limiting_rank.line("KV cache").why,
    learn.slips(5),
)

# %% [markdown]
# Now the start.
# This one was recorded, so nothing is started here.
# Here is what its worker wrote, the process that holds the model, and one line more.

# %%
run = learn.recorded()
run.said("(Worker", "kv_cache_utils")

# %% [markdown]
# ### Exercise 5.2: Read the log (2 minutes)
#
# How large is the KV cache that vLLM allocated, and how many tokens does it hold?
# Find both in the log; the plan's figures are others.

# %% tags=["learner"]
learn.exercise("5.2").check(kv_cache=..., tokens=...)

# %% tags=["solution"]
learn.exercise("5.2").check(kv_cache="2.61 GiB", tokens=12160)

# %% [markdown] tags=["solution"]
# The two lines:

# %% tags=["solution"]
learn.exercise("5.2").solution()

# %% [markdown]
# ## Investigate: plan and start, side by side
#
# The comparison is computed from that log.
# A difference is what was measured minus what was planned.

# %%
run

# %% [markdown]
# `planner.read_log` extracts the figures from the logs of many releases.

# %%
planner.read_log(run.log_text).to_dict()

# %% [markdown]
# ### Exercise 5.3: Explain the difference (2 minutes)
#
# The plan estimated more blocks than vLLM had.
# On this processor a block holds 128 tokens: how many blocks did vLLM have?
# And why were there fewer than planned?
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
# ### Real starts on GPUs
#
# That was a single start, and it had no GPU.
# Other people have published logs of their starts on GPUs; here are vLLM's figures beside the plan's.
# The first has the desk's model, the second a card with 24 GB like yours; the last two are one machine with two shares.

# %%
learn.published()

# %% [markdown]
# ### Exercise 5.4: The one it missed (2 minutes)
#
# The planner was wrong about the third start: vLLM had more room than planned.
# By how much was it off?
# And in which line, if the fourth start is off by nearly the same?
#
# - `a`: the weights
# - `b`: the share of the card
# - `c`: the peak activation
# - `d`: the bytes of a token

# %% tags=["learner"]
learn.exercise("5.4").check(off=..., line=...)

# %% tags=["solution"]
learn.exercise("5.4").check(off="0.91 GiB", line="c")

# %% [markdown] tags=["solution"]
# Both starts:

# %% tags=["solution"]
learn.exercise("5.4").solution()

# %% [markdown]
# How sure is the plan of your own desk?
# It names the starts that it was compared with, and what nobody has compared yet.

# %%
learn.certainty(learn.checkpoint(1))

# %% [markdown]
# ## Modify: your own start
#
# On a computer with vLLM, the panel starts it with exactly the plan's arguments and compares the measurements with the estimate.
# It takes minutes, downloads nothing, and Stop ends it at once.
# Without vLLM, the panel says how to install it.
# `start_here()` is a small plan for this computer: for its GPU, or for its processor if it has no GPU.

# %%
RunPanel(learn.start_here())

# %% [markdown]
# ### Optional: a start without a GPU
#
# In a dry run the installed vLLM starts for the desk's plan on a simulated L4.
# It measures the memory that PyTorch allocates and assumes only the driver's part.
# You need vLLM's build for NVIDIA GPUs; without it, the cell says how to get one.
# If you have it, write `start=True`, and after a minute compare the answer with the plan of lesson 1.

# %%
learn.dry_run_here(learn.checkpoint(1), start=False)

# %% [markdown]
# ## Drag: the share of a computer
#
# On a processor the share is one of the computer's memory.
# Predict the share at which the small model no longer starts, then drag.

# %%
learn.slide(
    small,
    vary="gpu_memory_utilization",
    values=(0.2, 0.22, 0.25, 0.28, 0.3, 0.33, 0.36, 0.4),
)

# %% [markdown]
# ## Explain
#
# The plan and the start differ.
# Which figures of a plan would you rely on most, which less, and why?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(5, ...)

# %% [markdown]
# ## Make: room for a test
#
# ### Exercise 5.5: Make room for a test (2 minutes)
#
# Four colleagues test the small model at once, each with up to 4,096 tokens.
# Make a plan for the computer of the recorded run that holds all of that.
# Other programs run there too: keep `gpu_memory_utilization` at 0.4 or below.
# Start from `small.changed(...)`.

# %% tags=["learner"]
mine = ...
learn.exercise("5.5").check(plan=mine)

# %% tags=["solution"]
mine = small.changed(max_model_len=4096, gpu_memory_utilization=0.36)
learn.exercise("5.5").check(plan=mine)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `Free memory on device cuda:0 (…/… GiB) on startup is less than desired GPU memory utilization`
#
#   Another program holds memory of the GPU.
#   **Try first**: stop that program, or a lower `gpu_memory_utilization`.
# - `Available memory on node 0 (…/… GiB) on startup is less than desired CPU memory utilization`
#
#   The computer has less free memory than the share requests.
#   **Try first**: a lower `gpu_memory_utilization`: on a processor it is a share of the computer's memory.
#
# ## Key points
#
# - One start can check a plan: predict, run, compare.
# - A plan knows the bytes of a token and of a block; it estimates, with a range, how much memory is left for them.
# - vLLM's log says how much memory it took, how much is left for the KV cache, and how many tokens that is.
# - A difference has a source: find the line that is off before you change a setting.
#
# ## On your own
#
# Do you have a log of vLLM?
# `planner confirm --log FILE` compares it with the plan that belongs to it.
#
# ## In practice
#
# Your computer stores what your own starts measured, and later plans of the same start use it.
# The first start of a model also compiles it: it takes longer, and on a GPU it leaves less for the KV cache than later starts, as the plan of lesson 1 says.
# Random weights are enough to measure memory: their shapes matter, not their values.
#
# ## Further reading
#
# - `docs/confirm.md` says how to start vLLM for a plan, and where the planner stores what it measured.
# - `docs/accuracy.md` lists published starts on real GPUs, each with its plan.
#
# Your progress in this lesson:

# %%
learn.progress(5)

# %% [markdown]
# ## Next
#
# **[6. A capacity plan](6_a_capacity_plan.ipynb)**: the whole city may now use the help desk.
# Which cards, how many, and what do they cost?
# Before you go on: which figure of a plan would you check first on your own server?
