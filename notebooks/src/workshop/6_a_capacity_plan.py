# %% [markdown]
# # 6. A capacity plan
#
# **What you will do**: answer a request for the whole city: which cards, how many, at what price.
#
# **What you will learn**:
#
# - turn a requirement ("forty visitors at once") into tokens and bytes
# - find the limit of a plan with the solver
# - compare cards by what they hold and what they cost
# - plan a nightly job with Ray Data LLM
#
# **What you need**: lessons 1 to 3, or their key points. No GPU, no network, no account.
#
# **Time**: 15 minutes, 10 of them for exercises.
#
# **Questions**:
#
# - "Forty visitors come at once. Which card do we buy?"
# - "One large card or two small ones?"
# - "What do the cards do at night?"

# %% [markdown]
# ## The story
#
# From January on, the help desk serves the whole city.
# The city's office expects forty visitors at once in the busiest hour.
# A question comes with its documents, up to 3,000 tokens, and an answer has up to 1,000.
# After lessons 2 and 3, the desk runs with weights and KV cache in fp8.

# %%
import planner
from planner import learn, solve

# %% [markdown]
# Some words you will meet.

# %%
learn.words("Maximum concurrency", "max_num_seqs", "tensor parallel", "data parallel")

# %% [markdown]
# ## Predict: how many on one card?
#
# How many such visitors does the desk's one L4 serve at the same time?

# %%
guess = learn.predict("visitors on one L4", ...)
guess

# %% [markdown]
# ## Run: the desk as it is
#
# `Load` describes the requirement.
# `solve.serving` compares a plan with it, and counts at the low end of the estimate's range.

# %%
desk = learn.checkpoint(6)
visitors = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=40)
guess.reveal(float(solve.serving(desk, visitors).requests_served))

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
# The solver computes plans until it finds the limit: the number it returns is served, and one more is not.
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

# %%
prices = {"L4": 0.8, "L40S": 1.9, "H100": 3.6}
planner.compare_gpus(desk, prices, prices, visitors, currency="euros")

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
planner.speed_bound(desk.changed(tensor_parallel_size=2), visitors)

# %% [markdown]
# ## At night: Ray Data LLM
#
# At night there are no questions, and the city archive has 20,000 old letters to summarise.
# Ray Data LLM runs vLLM over the rows of a table.
# A replica is one vLLM with its own cards, and `concurrency=(1, 4)` means one to four replicas.
# `entrypoint="engine"` plans vLLM as Ray Data LLM starts it, with different defaults.

# %%
letter = planner.Load(prompt_tokens=3000, output_tokens=300)
pair = desk.changed(tensor_parallel_size=2, entrypoint="engine")
night = planner.ray.pipeline(
    pair, concurrency=(1, 4), accelerator_type="L4", num_rows=20_000, load=letter
)

# %% [markdown]
# ### Exercise 6.4: Cards for the night (2 minutes)
#
# Each replica takes two L4, as it does by day.
# How many cards does this pipeline take at least, and how many at most?

# %% tags=["learner"]
learn.exercise("6.4").check(at_least=..., at_most=...)

# %% tags=["solution"]
learn.exercise("6.4").check(at_least=2, at_most=8)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("6.4").solution()

# %% [markdown]
# The pipeline says what it takes, stage by stage, and the shortest time in which the letters can be done.
# A stage is one step that each letter passes through; only `vLLMEngineStage` uses cards.
# Its workers, which Ray calls actors, are the replicas; the other stages need only processors.
# Read the warnings under the headline as well.

# %%
night

# %% [markdown]
# The library has two servers with two L4 each.
# `on` places every worker on them as Ray would, in the order in which they start.
# `PACK` means: on one server, where that is possible.
# Replicas that do not fit wait, and the job runs without them.

# %%
first = planner.ray.Node(name="first", cpus=16, gpus=2, accelerator_type="L4")
second = planner.ray.Node(name="second", cpus=16, gpus=2, accelerator_type="L4")
night.on([first, second])

# %% [markdown]
# ### Exercise 6.5: A place for every replica (2 minutes)
#
# Make a pipeline that uses exactly four cards from the start, and places every replica.
# Start from `planner.ray.pipeline(pair, accelerator_type="L4", ...)`.

# %% tags=["learner"]
job = ...
learn.exercise("6.5").check(pipeline=job)

# %% tags=["solution"]
job = planner.ray.pipeline(pair, concurrency=(2, 2), accelerator_type="L4")
learn.exercise("6.5").check(pipeline=job)

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
# - Compare by what is served at what price, not by the size of a card.
# - Ray counts replicas: cards are replicas x tensor parallel.
#
# ## On your own
#
# Take your own service: how long are its questions and answers, and how many come at once?
# Plan it, and send the command to a colleague.
#
# ## In practice
#
# Not every visitor sends 3,000 tokens, so the plan has room to spare; measure your own questions.
# Speed matters as well as memory: the bound above cannot be exceeded, and most starts are slower.
# Plan for one card to fail.
#
# ## Further reading
#
# - `docs/solve.md` describes every question that the solver answers.
# - `docs/compare.md`, "GPUs", says how cards are compared.
# - `docs/speed.md`, "What it ignores", says what the bound ignores.
# - `docs/ray.md`, "Plan" and "Place it on nodes", describes such jobs in full: stages, fractions of a card, live clusters.
# - `docs/export.md` says how to turn a plan into a command, a manifest or a file for a colleague.
#
# Your progress in the whole workshop:

# %%
learn.progress()

# %% [markdown]
# ## Next
#
# This was the last lesson.
# Open the explorer, `notebooks/explorer.ipynb`, with your own model.
# Before you go: what will you plan first?
