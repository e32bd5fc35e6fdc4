# %% [markdown]
# # 6. A capacity plan
#
# **What you will do**: answer a request for the whole city: which cards, how many, at what price.
#
# **What you will learn**:
#
# - turn a wish ("forty visitors at once") into tokens and bytes
# - find the edge of a plan with the solver
# - compare cards by what they hold and what they cost
# - plan a nightly job with Ray Data LLM
#
# **What you need**: lessons 1 to 3, or their key points. No GPU, no network, no account.
#
# **Time**: 15 minutes, 9 of them for exercises.
#
# **Questions**:
#
# - "Forty visitors at once: which card do we buy?"
# - "One large card or two small ones?"
# - "What happens with the cards at night?"

# %% [markdown]
# ## The story
#
# From January on, the help desk answers for the whole city.
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
# `Load` writes the wish down.
# `solve.serving` holds a plan beside it, and counts at the low end of the estimate's range.

# %%
desk = learn.checkpoint(6)
visitors = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=40)
guess.reveal(float(solve.serving(desk, visitors).requests_served))

# %% [markdown]
# ### Exercise 6.1: The memory of forty visitors (2 minutes)
#
# How much KV cache do forty visitors need, each with question and answer at full length?
# A token of this model costs 144 KiB in bfloat16.
# The desk keeps its cache in fp8.

# %% tags=["learner"]
learn.exercise("6.1").check(kv_cache=...)

# %% tags=["solution"]
learn.exercise("6.1").check(kv_cache="10.99 GiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("6.1").solution()

# %% [markdown]
# ## Investigate: the edge
#
# The solver plans again and again until it finds the edge: what it answers is served, and one more is not.
#
# ### Exercise 6.2: How many on one card (2 minutes)
#
# What is the largest number of such requests at once that one L4 can serve, with the best `max_num_seqs`?
# Use `solve.most_requests(desk, prompt_tokens=..., output_tokens=...)`.

# %% tags=["learner"]
learn.exercise("6.2").check(requests=...)

# %% tags=["solution"]
learn.exercise("6.2").check(
    requests=solve.most_requests(desk, prompt_tokens=3000, output_tokens=1000).value
)

# %% [markdown] tags=["solution"]
# Both sides of the edge:

# %% tags=["solution"]
learn.exercise("6.2").solution()

# %% [markdown]
# ## Modify: other cards
#
# Three offers lie on your table, in euros per hour of one card.
# The prices are invented for this story.
# Where one card is too few, the comparison takes more of them.

# %%
prices = {"L4": 0.8, "L40S": 1.9, "H100": 3.6}
planner.compare_gpus(desk, prices, prices, visitors, currency="euros")

# %% [markdown]
# ## Make: the plan for the city
#
# ### Exercise 6.3: Choose the cards (3 minutes)
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
# Memory alone sets a limit: every token reads all weights once.

# %%
planner.speed_bound(desk.changed(tensor_parallel_size=2), visitors)
