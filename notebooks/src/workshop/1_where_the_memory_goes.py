# %% [markdown]
# # 1. Where the memory goes
#
# **What you will do**: plan the first day of a help desk on one GPU, and end with a command that starts it.
#
# **What you will learn**:
#
# - read where each GiB of a GPU goes when vLLM runs on it
# - say how much is left for conversations
# - find out why vLLM does not start, and change one setting so that it does
#
# **What you need**: this notebook. No GPU, no network, no account.
#
# **Time**: about 25 minutes, 9 of them for exercises.
#
# **Questions**:
#
# - "My card has 24 GB and the model takes 16. Where is the rest?"
# - "How many people can send questions at the same time?"
# - "Why does vLLM not start with a card that is larger than the model?"

# %% [markdown]
# ## The story
#
# You work for the library of a small city.
# The library opens a help desk on its web page: visitors ask, and a language model answers.
# There is one server with one GPU, an L4.
# The model is Qwen3-8B, and vLLM runs it.
# A question with its answer may have up to 8,192 tokens.
#
# Think of the GPU's memory as the top of a desk.
# The model's books lie on it all day, and whatever room they leave is for the visitors' papers.
# In six lessons we find out how large the desk is, what lies on it, and how many visitors can be served.
#
# Run each cell with Shift and Enter, from the top down.
# The sections from "What could go wrong" on are for reading at home.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
from planner import learn

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

# %% [markdown]
# Some words you will meet.

# %%
learn.words("token", "weights", "KV cache", "GiB")

# %% [markdown]
# ## Predict: how much is left for conversations?
#
# The L4 is sold as a card with 24 GB: so large are its memory chips, and programs get a little less.
# The model's files take up 16.4 GB.
# How much is left for the KV cache, which holds the conversations?
#
# Replace the `...` with your guess, such as `"5 GiB"`, and run the cell.
# There is no right or wrong answer yet.

# %%
guess = learn.predict("KV cache on the L4", ...)
guess

# %% [markdown]
# ### Exercise 1.1: The budget by hand (2 minutes)
#
# A program that asks CUDA for the size of the L4 gets 22.03 GiB.
# vLLM requests 0.92 of that.
# The weights take 15.27 GiB, and four smaller lines take 1.38 GiB together.
# How much memory does vLLM request, and how much of it does the KV cache get?
#
# Replace each `...` with a size, such as `"5.5 GiB"`.
# The check says which part is wrong, and its buttons have hints.

# %% tags=["learner"]
learn.exercise("1.1").check(requested=..., kv_cache=...)

# %% tags=["solution"]
learn.exercise("1.1").check(requested="20.27 GiB", kv_cache="3.62 GiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("1.1").solution()

# %% [markdown]
# ## Run: the plan of the first day
#
# `checkpoint(1)` is the plan that this lesson starts from.
# It says what vLLM would do on this card; it does not start anything.
# Read the verdict first, then the bar from left to right, and find your two figures in it.
# The bar shows a later start: the first one compiles the model and has less room.

# %%
desk = learn.checkpoint(1)
desk

# %% [markdown]
# Here is your first guess beside the plan.
# If a forgotten step gives your figure, it says which one.
# `limiting_rank` is the GPU with the least room; here there is only one.

# %%
guess.reveal(
    desk.limiting_rank.available_kv_cache_bytes,
    desk.limiting_rank.line("KV cache").why,
    learn.slips(1),
)

# %% [markdown]
# ## Investigate: which lines are there?
#
# Each line of the plan is one use of memory: one thing that lies on the desk.
# "How it is known" says how certain it is: `exact` follows from the model's files, `formula` from vLLM's source, `measured` comes from published starts, and `assumed` is a guess with a wide range.
# The KV cache comes last because it gets the room that the others leave.

# %%
learn.lines(desk)

# %% [markdown]
# Here is the same as a subtraction: from the card to the request, and from the request to what is left.

# %%
learn.picture("budget", desk)

# %% [markdown]
# ### Exercise 1.2: Which line grows? (2 minutes)
#
# Visitors want to send longer texts.
# You raise `max_model_len` from 8,192 to 12,000 tokens.
# What happens to the lines?
#
# - `a`: the weights grow
# - `b`: the KV cache grows
# - `c`: no line changes, and fewer requests fit at once
# - `d`: the peak activation grows
#
# Answer with a letter, such as `"a"`.

# %% tags=["learner"]
learn.exercise("1.2").check(line=...)

# %% tags=["solution"]
learn.exercise("1.2").check(line="c")

# %% [markdown] tags=["solution"]
# Planned again, to be sure:

# %% tags=["solution"]
learn.exercise("1.2").solution()

# %% [markdown]
# ### Exercise 1.3: Shorter questions (2 minutes)
#
# Most questions are short.
# How many requests of 4,096 tokens fit into the KV cache at once?
# A whole number is enough.

# %% tags=["learner"]
learn.exercise("1.3").check(requests=...)

# %% tags=["solution"]
learn.exercise("1.3").check(requests=desk.changed(max_model_len=4096).max_concurrency)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("1.3").solution()

# %% [markdown]
# ## Modify: remove the limit
#
# `changed` plans again with other settings.
# Without `max_model_len`, vLLM uses the model's own maximum length: 40,960 tokens.
# This plan does not fit, and the grey box quotes the error that vLLM would print.

# %%
desk.changed(max_model_len=None)

# %% [markdown]
# vLLM starts only if one request of the full length fits.
# Its message names the longest request that would have fitted in this start.
# Since starts differ a little, the plan recommends a shorter one, "Longest max_model_len", which fits at the low end of the range too.

# %% [markdown]
# ## Drag: the length of requests
#
# The slider plans each length.
# First say to yourself which segment of the bar will move, then drag it to both ends.
# The arithmetic of each line opens below the bar.

# %%
learn.slide(
    desk,
    vary="max_model_len",
    values=(2048, 4096, 8192, 12000, 16384, 24576, 32768, 40960),
)

# %% [markdown]
# ## Explain
#
# A long request needs more memory than a short one.
# Why does a longer max_model_len change no line of the account?
#
# Write it as you would tell a colleague, in quotes instead of the dots.
# Nobody judges it: an expert's explanation appears beside yours.

# %%
learn.explain(1, ...)

# %% [markdown]
# ## Make: your own plan
#
# ### Exercise 1.4: A plan that starts (3 minutes)
#
# The city archive wants to send documents of 12,000 tokens.
# Make a plan for Qwen/Qwen3-8B on one L4 that starts and takes requests of that length.
# Write it as `planner.plan("Qwen/Qwen3-8B", gpu="L4", ...)` instead of the dots.

# %%
import planner

# %% tags=["learner"]
mine = ...
learn.exercise("1.4").check(plan=mine)

# %% tags=["solution"]
mine = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=12000)
learn.exercise("1.4").check(plan=mine)

# %% [markdown]
# When your plan is right, `mine.command()` is the line that starts it.
# Here is the line for the desk's first day.

# %%
desk.command()

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `To serve at least one request with the model's max seq len (…), (… GiB KV cache is needed, which is larger than the available KV cache memory`
#
#   One request of the full length does not fit into the KV cache.
#   **Try first**: a smaller `max_model_len`.
# - `User-specified max_model_len (…) is greater than the derived max_model_len`
#
#   The model does not support such long texts.
#   **Try first**: a smaller `max_model_len`, or another model.
#
# ## Key points
#
# - vLLM requests a share of the card, not all of it.
# - Weights, buffers, activations and graphs come first; the KV cache gets what is left.
# - No memory is reserved for individual requests: a longer `max_model_len` does not change any line.
# - The KV cache has a size in tokens; how many requests fit depends on their length.
# - vLLM starts when one request of the full length fits.
#
# ## On your own
#
# Type `desk.explore()` into a new cell and move the other controls too.
# Which setting frees the most room for the KV cache?
#
# ## In practice
#
# Real questions differ in length, and most are shorter than the limit.
# The plan counts each one at its full length, so more of them fit at once than it says.
# Besides its share, vLLM's process takes some memory that the plan lists as "outside vLLM's budget": the driver's context, and tables and workspaces that are allocated after the KV cache.
#
# ## Further reading
#
# - `docs/memory-model.md`, "What vLLM measures when it starts", follows a start step by step.
# - `docs/app.md` describes the explorer.
# - `docs/glossary.md` explains every word and every setting.
#
# Your progress in this lesson:

# %%
learn.progress(1)

# %% [markdown]
# ## Next
#
# **[2. Weights](2_weights.ipynb)**: visitors find the answers too simplistic.
# Can the library run a larger model?
# Before you go on: which line of the account surprised you?
