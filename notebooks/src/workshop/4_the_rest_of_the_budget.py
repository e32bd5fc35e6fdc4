# %% [markdown]
# # 4. The rest of the budget
#
# **What you will do**: read four ways to fail, and find more room without buying anything.
#
# **What you will learn**:
#
# - say what `gpu_memory_utilization` allows
# - name what activations, buffers and CUDA graphs are for, and what makes them grow
# - tell four kinds of "out of memory" apart, and say what helps against each
#
# **What you need**: lesson 1, or its key points. No GPU, no network, no account.
#
# **Time**: about 25 minutes, 10 of them for exercises.
#
# **Questions**:
#
# - "nvidia-smi shows a full card, and no request has arrived yet. Is that a leak?"
# - "What are CUDA graphs, and why do they cost memory?"
# - "It says out of memory. What do I change?"

# %% [markdown]
# ## The story
#
# There is no money for a second card this year.
# The quality of the answers must not change.
# So you look at the lines between the weights and the KV cache.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
import planner
from planner import learn

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

# %% [markdown]
# Some words you will meet.

# %%
learn.words("requested memory", "profile run", "peak activation", "CUDA graphs")

# %% [markdown]
# ## Predict: between the weights and the cache
#
# vLLM requests about 20 GiB of the card.
# The weights take 15.27 GiB, the KV cache 3.62 GiB.
# How large is the largest of the lines between them?

# %%
guess = learn.predict("largest line between weights and KV cache", ...)
guess

# %% [markdown]
# ## Run: the memory lines again
#
# The lesson starts from the desk of lesson 1.

# %%
desk = learn.checkpoint(4)
learn.picture("bar", desk)

# %% [markdown]
# CUDA graphs are recordings of a step, which the GPU replays without waiting for the processor.
# vLLM captures one for each of many batch sizes, so that answers come faster.

# %%
guess.reveal(
    desk.limiting_rank.line("CUDA graphs").size_bytes,
    desk.limiting_rank.line("CUDA graphs").why,
    learn.slips(4),
)

# %% [markdown]
# ### Exercise 4.1: What is allowed (2 minutes)
#
# What does `gpu_memory_utilization=0.92` mean?
# And how much larger does the KV cache get with 0.95?
# Write the size with its unit, such as `"2.5 GiB"` or `"300 MiB"`.
#
# - `a`: the GPU computes 92 % of the time
# - `b`: 92 % of the card becomes KV cache
# - `c`: vLLM may take up to 92 % of the card, and the KV cache gets what is left of that
# - `d`: vLLM takes 92 % of what other programs leave free

# %% tags=["learner"]
learn.exercise("4.1").check(meaning=..., gained=...)

# %% tags=["solution"]
learn.exercise("4.1").check(meaning="c", gained="0.66 GiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("4.1").solution()

# %% [markdown]
# ## Investigate: what makes a line grow?
#
# Before it allocates the KV cache, vLLM runs its largest step: the profile run.
# The peak activation is the memory that this step needs for a moment; the persistent buffers stay allocated all the time.
# Open "The arithmetic" of both lines and read the factors. Which of vLLM's settings do you find among them?

# %%
learn.lines(desk)

# %% [markdown]
# ### Exercise 4.2: Fewer at once (2 minutes)
#
# `max_num_seqs` is the most requests that vLLM works on at the same time, here 256.
# How large are the persistent buffers with `max_num_seqs=64`?
# And what does it cost?
#
# - `a`: answers get worse
# - `b`: the 65th request waits until another one has finished
# - `c`: requests must be shorter
# - `d`: there is none, and vLLM should do it by itself

# %% tags=["learner"]
learn.exercise("4.2").check(buffers=..., price=...)

# %% tags=["solution"]
learn.exercise("4.2").check(
    buffers=desk.changed(max_num_seqs=64)
    .limiting_rank.line("persistent buffers")
    .size_bytes,
    price="b",
)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("4.2").solution()

# %% [markdown]
# ## Modify: four plans that fail
#
# Four libraries of other cities send you what vLLM said to them.
# Each start failed in a different way, and each library may change cards, models or settings.
# The first library wants the larger model of lesson 2:

# %%
larger_model = desk.changed(model="Qwen/Qwen3-14B")
learn.says(larger_model)

# %% [markdown]
# The second one copied a low share of the card from an old script:

# %%
low_share = desk.changed(gpu_memory_utilization=0.7)
learn.says(low_share)

# %% [markdown]
# The third one left out `max_model_len`, so vLLM takes the model's full length:

# %%
full_length = desk.changed(max_model_len=None)
learn.says(full_length)

# %% [markdown]
# The fourth one set the share as high as it goes:

# %%
high_share = desk.changed(gpu_memory_utilization=1.0)
learn.says(high_share)

# %% [markdown]
# ### Exercise 4.3: Four ways to fail (3 minutes)
#
# What does each library try first?
#
# - `a`: a smaller max_model_len
# - `b`: fewer bytes for each weight, a smaller model, or more GPUs
# - `c`: a higher gpu_memory_utilization
# - `d`: a lower gpu_memory_utilization, or stop the other programs on the card

# %% tags=["learner"]
learn.exercise("4.3").check(
    larger_model=..., low_share=..., full_length=..., high_share=...
)

# %% tags=["solution"]
learn.exercise("4.3").check(
    larger_model="b", low_share="c", full_length="a", high_share="d"
)

# %% [markdown] tags=["solution"]
# The messages again:

# %% tags=["solution"]
learn.exercise("4.3").solution()

# %% [markdown]
# ### If you have time: debug this start
#
# Somebody met each of these errors and published it.
# Say what caused it and what helps; the planner's explanation follows.
# There are ten starts of two minutes each; change the number for another one.

# %%
learn.debug_this_start(1)

# %% [markdown]
# ## Drag: the share of the card
#
# Predict at which share this model starts, and what happens at 1.0, then drag.

# %%
learn.slide(
    desk,
    vary="gpu_memory_utilization",
    values=(0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.95, 0.98, 1.0),
)

# %% [markdown]
# ## Explain
#
# nvidia-smi shows a full card, and no request has arrived.
# Why is that not a leak?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(4, ...)

# %% [markdown]
# ## Make: more room, same answers
#
# Without CUDA graphs there is more room, but every answer is slower.

# %%
planner.compare(desk, desk.changed(enforce_eager=True))

# %% [markdown]
# ### Exercise 4.4: More room, same answers (3 minutes)
#
# Make a plan for Qwen/Qwen3-8B on one L4 with requests of 8,192 tokens.
# Its KV cache holds at least 28,672 tokens, which is three and a half such requests.
# Weights and cache keep their number format, and CUDA graphs stay enabled.

# %% tags=["learner"]
mine = ...
learn.exercise("4.4").check(plan=mine)

# %% tags=["solution"]
mine = desk.changed(max_num_seqs=64)
learn.exercise("4.4").check(plan=mine)

# %% [markdown]
# ## If you have time: guess the bar
#
# You know every line by now.
# Drag the parts of another model on another card to where you expect them, then look at the plan's bar.
# There is a new pair each day; the same day has the same pair for everybody, so compare your scores.

# %%
learn.guess_the_bar()

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `Free memory on device cuda:0 (…/… GiB) on startup is less than desired GPU memory utilization`
#
#   Another program holds memory, or the share is too high.
#   **Try first**: stop that program, or a lower `gpu_memory_utilization`.
# - `No available memory for the cache blocks.`
#
#   Weights and the other lines fill the budget.
#   **Try first**: a higher `gpu_memory_utilization`, then smaller weights.
# - `torch.OutOfMemoryError: CUDA out of memory.`
#
#   While loading: the weights are too large.
#   **Try first**: fewer bytes for each weight, or more cards.
#
# ## Key points
#
# - vLLM may take a share of the card, `gpu_memory_utilization`, and fills it up with KV cache, so a full card is not a leak.
# - The profile run measures the largest step; `max_num_batched_tokens` and `max_num_seqs` set its size.
# - CUDA graphs trade memory for speed.
# - A smaller `max_num_seqs` shrinks buffers, sampling and graphs; requests beyond the limit wait.
# - Ask which is too small: the card, the budget or the cache.
#
# ## On your own
#
# Debug the other nine starts: `learn.debug_this_start(2)` and so on.
#
# Raise `max_num_batched_tokens` to 8,192 and to 16,384.
# Which line grows, and what happens to the verdict?
#
# ## In practice
#
# Some memory is outside the budget: the driver's context, and tables and workspaces that are allocated after the KV cache.
# A share near 1 leaves no room for it, and vLLM fails late in the start or while serving.
# Since vLLM 0.20 CUDA graphs are inside the budget, so the same share leaves less KV cache than it did in 0.19.
# There is one exception: 0.22 to 0.28 run models such as this one with a new runner, which did not count them until 0.29.
# `planner.advise(plan)` lists what would help, and what each change costs.
#
# ## Further reading
#
# - `docs/memory-model.md`, "What the utilization really limits", says what lies outside the budget.
# - `docs/advice.md` says what the planner advises, and what it does not know.
#
# Your progress in this lesson:

# %%
learn.progress(4)

# %% [markdown]
# ## Next
#
# **[5. Confirm](5_confirm.ipynb)**: a plan is a claim. Is it true?
# Before you go on: which message did you get wrong before today?
