# %% [markdown]
# # 7. At night
#
# **What you will do**: plan a nightly job with Ray Data LLM on the cards that answer questions by day.
#
# **What you will learn**:
#
# - count the cards of replicas
# - say which replicas find a place, and what the others do
# - read the shortest time that a job can take
#
# **What you need**: lessons 1, 2 and 6, or their key points. No GPU, no network, no account, no Ray.
#
# **Time**: about 15 minutes, 6 of them for exercises.
# This lesson is optional: it is for people who run batch jobs.
#
# **Questions**:
#
# - "What do the cards do at night?"
# - "Ray asks for eight cards, and I have four. Does my job run?"

# %% [markdown]
# ## The story
#
# At night there are no questions, and the city archive has 20,000 old letters to summarise.
# A letter has up to 3,000 tokens, its summary 300.
# The library has four L4 by now, two in each of two servers.
# Ray Data LLM runs vLLM over the rows of a table: a letter is a row.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
import planner
from planner import learn
from planner.learn.lessons.at_night import minutes_at_least

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

# %% [markdown]
# Some words you will meet.
# A replica is one vLLM with its own cards.

# %%
learn.words("tensor parallel", "data parallel", "max_num_seqs")

# %% [markdown]
# ## Predict: how long does it take?
#
# Suppose there were eight cards, for four replicas of two cards each.
# How many minutes would the letters take at least?

# %%
guess = learn.predict("minutes for all letters", ...)
guess

# %% [markdown]
# ## Run: the job
#
# `concurrency=(1, 4)` means one to four replicas.
# The lesson's plan has `entrypoint="engine"`: Ray Data LLM starts vLLM with other defaults than a server.

# %%
pair = learn.checkpoint(7)
letter = planner.Load(prompt_tokens=3000, output_tokens=300)
night = planner.ray.pipeline(
    pair, concurrency=(1, 4), accelerator_type="L4", num_rows=20_000, load=letter
)

# %% [markdown]
# Your guess and the bound.
# No run is faster, and most are slower.

# %%
guess.reveal(
    minutes_at_least(night),
    night.throughput.why,
    learn.slips(7),
)

# %% [markdown]
# ### Exercise 7.1: Cards for the night (2 minutes)
#
# Each replica takes two L4, as it does by day.
# How many cards does this pipeline take at least, and how many at most?

# %% tags=["learner"]
learn.exercise("7.1").check(at_least=..., at_most=...)

# %% tags=["solution"]
learn.exercise("7.1").check(at_least=2, at_most=8)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("7.1").solution()

# %% [markdown]
# ## Investigate: stage by stage
#
# The pipeline says what it takes, stage by stage.
# A stage is one step that each letter passes through; only `vLLMEngineStage` uses cards.
# Its workers, which Ray calls actors, are the replicas; the other stages need only processors.
# Read the warnings under the headline as well.

# %%
night

# %% [markdown]
# The library has two servers with two L4 each.
# `on` places every worker on them as Ray would, in the order in which they start.
# `PACK` means: on one server, where that is possible.

# %%
first = planner.ray.Node(name="first", cpus=16, gpus=2, accelerator_type="L4")
second = planner.ray.Node(name="second", cpus=16, gpus=2, accelerator_type="L4")
night.on([first, second])

# %% [markdown]
# ### Exercise 7.2: Who waits? (2 minutes)
#
# How many replicas are placed?
# And what does the job do?
#
# - `a`: it fails, because two replicas find no cards
# - `b`: it waits until all replicas have cards
# - `c`: it runs with the replicas that are placed
# - `d`: it splits the other replicas over single cards

# %% tags=["learner"]
learn.exercise("7.2").check(placed=..., job=...)

# %% tags=["solution"]
learn.exercise("7.2").check(placed=2, job="c")

# %% [markdown] tags=["solution"]
# Both counts:

# %% tags=["solution"]
learn.exercise("7.2").solution()

# %% [markdown]
# ## Modify: rows at once
#
# Each replica works on many letters at once.
# Predict which segment shrinks when it works on more of them, then drag.

# %%
learn.slide(
    pair,
    vary="max_num_seqs",
    values=(16, 32, 64, 128, 256, 512),
)

# %% [markdown]
# ## Explain
#
# Two of the four replicas found no cards.
# Why did the job run, and what would you write instead?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(7, ...)

# %% [markdown]
# ## Make: a job that uses all cards
#
# ### Exercise 7.3: A place for every replica (2 minutes)
#
# Make a pipeline that uses exactly four cards from the start, and places every replica.
# Start from `planner.ray.pipeline(pair, accelerator_type="L4", ...)`.

# %% tags=["learner"]
job = ...
learn.exercise("7.3").check(pipeline=job)

# %% tags=["solution"]
job = planner.ray.pipeline(pair, concurrency=(2, 2), accelerator_type="L4")
learn.exercise("7.3").check(pipeline=job)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `Total number of attention heads (…) must be divisible by tensor parallel size (…).`
#
#   Three cards cannot share the heads evenly.
#   **Try first**: 2 or 4 cards for each replica, or more replicas.
# - `To serve at least one request with the model's max seq len (…)`
#
#   A smaller card than planned: not even one row fits.
#   **Try first**: `max_model_len` as long as the rows need, and no longer.
#
# ## Key points
#
# - Ray counts replicas: cards are replicas x tensor parallel.
# - The first figure of `concurrency` is enough to run; replicas that wait hold no cards.
# - The bound on rows per second cannot be exceeded, and most runs are slower.
#
# ## On your own
#
# Plan the same job with one card for each replica.
# Does it need fewer cards to start, and is it faster?
#
# ## In practice
#
# By day the servers answer questions: leave enough time in the morning to end the job.
# Long letters wait for the KV cache as visitors do.
#
# ## Further reading
#
# - `docs/ray.md`, "Plan" and "Place it on nodes", describes such jobs in full: stages, fractions of a card, live clusters.
# - `docs/speed.md`, "What it ignores", says what the bound ignores.
#
# Your progress in this lesson:

# %%
learn.progress(7)

# %% [markdown]
# ## Next
#
# This was the last lesson.
# Open the **[explorer](../explorer.ipynb)** with your own model.
# Before you go: which job of yours could run at night?
