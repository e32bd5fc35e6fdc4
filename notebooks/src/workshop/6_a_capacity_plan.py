# %% [markdown]
# # 6. A capacity plan
#
# **What you will do**: answer a request for the whole city, which cards, how many, at what price; then plan a model of your own and take the plan home.
#
# **What you will learn**:
#
# - turn a requirement ("forty visitors at once") into tokens and bytes
# - find the limit of a plan with the solver
# - compare cards by what they hold and what they cost
# - turn a plan into a command, a link and a page
#
# **What you need**: lessons 1 to 3, or their key points. No GPU, no network, no account.
#
# **Time**: about 20 minutes, 9 of them for exercises.
#
# **Questions**:
#
# - "Forty visitors come at once. Which card do we buy?"
# - "One large card or two small ones?"
# - "And my own model?"

# %% [markdown]
# ## The story
#
# From January on, the help desk serves the whole city.
# The city's office expects forty visitors at once in the busiest hour.
# A question comes with its documents, up to 3,000 tokens, and an answer has up to 1,000.
# After lessons 2 and 3, the desk runs with weights and KV cache in fp8.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
import planner
from planner import learn, solve

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

# %% [markdown]
# Some words you will meet.

# %%
learn.words("Maximum concurrency", "max_num_seqs", "tensor parallel", "data parallel")

# %% [markdown]
# ## Predict: how many on one card?
#
# A token costs half of what it cost in lesson 3, and the KV cache has 10.09 GiB now.
# How many such visitors does the desk's one L4 serve at the same time?

# %%
guess = learn.predict("visitors on one L4", ...)
guess

# %% [markdown]
# ## Run: the desk as it is
#
# The bar's soft edge shows the range of the estimate.

# %%
desk = learn.checkpoint(6)
desk

# %% [markdown]
# `Load` describes the requirement.
# `solve.serving` compares a plan with it, and counts at the low end of that range.

# %%
visitors = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=40)
guess.reveal(float(solve.serving(desk, visitors).requests_served), slips=learn.slips(6))

# %% [markdown]
# ### Exercise 6.1: The memory of forty visitors (2 minutes)
#
# How much KV cache do forty visitors need, each with question and answer at full length?
# A token of this model costs 144 KiB in bfloat16.
# The desk stores its cache in fp8.

# %% tags=["learner"]
learn.exercise("6.1").check(kv_cache=...)

# %% tags=["solution"]
learn.exercise("6.1").check(kv_cache="10.99 GiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("6.1").solution()

# %% [markdown]
# ## Investigate: the limit
#
# The solver computes one plan after another until it finds the largest number of requests that the desk serves.
#
# ### Exercise 6.2: How many on one card (2 minutes)
#
# What is the largest number of such requests that one L4 can serve at once, with the best `max_num_seqs`?
# Use `solve.most_requests(desk, prompt_tokens=..., output_tokens=...)`.

# %% tags=["learner"]
learn.exercise("6.2").check(requests=...)

# %% tags=["solution"]
learn.exercise("6.2").check(
    requests=solve.most_requests(desk, prompt_tokens=3000, output_tokens=1000).value
)

# %% [markdown] tags=["solution"]
# Both sides of the limit:

# %% tags=["solution"]
learn.exercise("6.2").solution()

# %% [markdown]
# ## Modify: other cards
#
# You have three offers, in euros per hour for one card.
# The prices are invented for this story.
# Where one card is not enough, the comparison uses more of them.
# Read two columns first: the tokens per second that all visitors get at most, and what a million tokens of answers cost at least.

# %%
prices = {"L4": 0.8, "L40S": 1.9, "H100": 3.6}
planner.compare_gpus(
    desk,
    gpus=["L4", "L40S", "H100"],
    price_per_hour=prices,
    load=visitors,
    currency="euros",
)

# %% [markdown]
# ## Drag: how many at once
#
# Two L4 serve the city.
# Predict what happens to the KV cache when vLLM works on fewer requests at once, and on more, then drag.

# %%
learn.slide(
    desk.changed(tensor_parallel_size=2),
    vary="max_num_seqs",
    values=(8, 16, 32, 40, 64, 128, 256, 512),
)

# %% [markdown]
# ## Explain
#
# One card is cheapest by the hour, another by the answer.
# Which does the library choose, and why?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(6, ...)

# %% [markdown]
# ## Make: the plan for the city
#
# ### Exercise 6.3: Choose the cards (2 minutes)
#
# Make a plan for Qwen/Qwen3-8B that serves the forty visitors and costs at most 1.8 euros per hour.
# Start from `desk.changed(...)`.

# %% tags=["learner"]
mine = ...
learn.exercise("6.3").check(plan=mine)

# %% tags=["solution"]
mine = desk.changed(tensor_parallel_size=2, max_num_seqs=40)
learn.exercise("6.3").check(plan=mine)

# %% [markdown]
# How fast can it be at best?
# Memory bandwidth sets a limit: each step reads all weights and the KV cache of each request.

# %%
planner.speed_bound(desk.changed(tensor_parallel_size=2, max_num_seqs=40), visitors)

# %% [markdown]
# ### Exercise 6.4: Your own model (3 minutes)
#
# Now plan what you will run: your model, your card, your load.
# No idea yet? Type `planner.Explorer()` into a new cell: it has a list of models and one of cards.
# Write the load first: how long are the questions, how long the answers, how many at once?

# %% tags=["learner"]
own = ...
learn.exercise("6.4").check(plan=own)

# %% tags=["solution"]
load = planner.Load(prompt_tokens=2000, output_tokens=500, requests=20)
own = planner.plan("Qwen/Qwen3-30B-A3B", gpu="H100", max_model_len=8192, load=load)
learn.exercise("6.4").check(plan=own)

# %% [markdown]
# ## Take it home
#
# You leave with three things: the command, a link that opens the plan in the app (`make app` starts it), and the plan on one page.
# Replace the `...` with `own`, or with `mine` if you have no plan of your own yet.

# %% tags=["learner"]
learn.take_home(...)

# %% tags=["solution"]
learn.take_home(own)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `Total number of attention heads (…) must be divisible by tensor parallel size (…).`
#
#   Three cards cannot share the heads evenly.
#   **Try first**: 2 or 4 cards, or several replicas.
# - `To serve at least one request with the model's max seq len (…)`
#
#   A smaller card than planned: not even one request fits.
#   **Try first**: `max_model_len` as long as the load needs, and no longer.
#
# ## Key points
#
# - Write the load down first: tokens of a question, tokens of an answer, how many at once.
# - KV cache of a load: requests x tokens x bytes of a token, in whole blocks.
# - Plan with the low end of the range, as the solver does.
# - Compare cards by their price for the same load: per hour if the service is quiet, per answer if it is busy.
#
# ## On your own
#
# Ask the planner what your own service could do better: `planner.advise(own)`.
#
# ## In practice
#
# Not every visitor sends 3,000 tokens, so the plan has room to spare; measure your own questions.
# Look at the speed as well as at the memory: no start exceeds the bound above, and most are slower.
# Plan for one card to fail.
#
# ## Further reading
#
# - `docs/solve.md` describes every question that the solver answers.
# - `docs/compare.md`, "GPUs", says how cards are compared.
# - `docs/speed.md`, "What it ignores", says what the bound ignores.
# - `docs/export.md` says how to turn a plan into a command, a manifest or a file for a colleague.
#
# Your progress in the whole workshop:

# %%
learn.progress()

# %% [markdown]
# ## Next
#
# **[7. At night](7_at_night.ipynb)**, for those who run batch jobs: Ray Data LLM over many rows.
# Before you go: what will you plan first?
