# %% [markdown]
# # 3. The KV cache
#
# **What you will do**: find room for six visitors with long documents on the library's one card.
#
# **What you will learn**:
#
# - compute the bytes that one token costs
# - count in blocks, as vLLM does
# - trade the length of requests against their number
# - recognise models that store less for each token
#
# **What you need**: lesson 1, or its key points. No GPU, no network, no account.
#
# **Time**: about 25 minutes, 10 of them for exercises.
#
# **Questions**:
#
# - "What does one token cost?"
# - "256 requests of 8,192 tokens cannot fit. Why does vLLM start anyway?"
# - "Why does another model hold so many more?"

# %% [markdown]
# ## The story
#
# The help desk is now well known in the city.
# Visitors send letters and forms, and several come at once.
# There is still one L4 with Qwen3-8B.

# %% tags=["install"]
# tools/notebooks.py writes this cell: it installs what is missing.

# %%
import planner
from planner import learn
from planner.solve.comparing import context_against_concurrency

# %% [markdown] tags=["solution"]
# This notebook has the answers filled in.

# %% tags=["solution"]
learn.set_aside()

# %% [markdown]
# ## Play: a day at the desk
#
# Forty visitors come to the desk's KV cache.
# Press Play, and change the settings while they come.
# Two minutes: how few of them can you preempt, and what does the day cost?

# %%
learn.living_kv_cache(learn.checkpoint(3))

# %% [markdown]
# Some words you will meet.

# %%
learn.words(
    "KV cache", "block", "sliding window", "latent attention", "recurrent state"
)

# %% [markdown]
# ## Predict: how many tokens does the cache hold?
#
# The desk has a KV cache of 3.62 GiB.
# For every token of a conversation, each layer of the model stores a key and a value there.
# How many tokens does the cache hold?

# %%
guess = learn.predict("tokens in the KV cache", ...)
guess

# %% [markdown]
# ## Run: what the plan says
#
# The lesson starts from the desk of lesson 1.

# %%
desk = learn.checkpoint(3)
learn.picture("budget", desk)

# %% [markdown]
# Your guess and the plan:

# %%
guess.reveal(float(desk.kv_cache_size_tokens), slips=learn.slips(3))

# %% [markdown]
# ## Investigate: one token
#
# `kv_groups` lists the groups of layers that store something: their kind, their number, and how many tokens one of their blocks holds.

# %%
desk.kv_groups

# %% [markdown]
# ### Exercise 3.1: The bytes of one token (3 minutes)
#
# How many bytes does one token take, in all layers together?
# The model has 36 layers, 32 attention heads, 8 KV heads, and 128 numbers in each head.
# Numbers are bfloat16.

# %% tags=["learner"]
learn.exercise("3.1").check(token=...)

# %% tags=["solution"]
learn.exercise("3.1").check(token="144 KiB")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("3.1").solution()

# %% [markdown]
# The picture has a line for each layer on the left, and what one layer stores of a token on the right: keys and values by turns.

# %%
learn.picture("token", desk)

# %% [markdown]
# ### Blocks
#
# vLLM does not reserve room for whole requests.
# It works like a notepad: while a text grows, vLLM takes one sheet after another, a block, and frees them all when the answer is complete.
# When no block is free, new requests wait, and the latest running one may be preempted and computed again later.
#
# You saw it happen in your day at the desk: who gave up blocks, and who got them?

# %% [markdown]
# ### Exercise 3.2: Blocks (2 minutes)
#
# How many blocks does a question of 1,000 tokens take?
#
# And: vLLM works on up to 256 requests of up to 8,192 tokens here.
# All of them together would need 288 GiB.
# Why does vLLM start?
#
# - `a`: vLLM allocates blocks only for tokens that exist; a request that finds none waits
# - `b`: vLLM stores what does not fit in the computer's memory
# - `c`: vLLM shortens the requests until they fit
# - `d`: it does not start

# %% tags=["learner"]
learn.exercise("3.2").check(blocks=..., start=...)

# %% tags=["solution"]
learn.exercise("3.2").check(blocks=63, start="a")

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("3.2").solution()

# %% [markdown]
# Requests with the same beginning share its blocks; vLLM calls that prefix caching.

# %%
learn.picture("sharing", desk)

# %% [markdown]
# ## Modify: length against number
#
# The cache has a fixed number of tokens, so it holds either few long requests or many short ones.
# The table shows both; "at least" is the low end of the estimate's range.

# %%
context_against_concurrency(desk)

# %% [markdown]
# `kv_cache_dtype="fp8"` stores each number in one byte instead of two.
# The cache keeps its number of bytes and holds twice the tokens.

# %%
desk.changed(kv_cache_dtype="fp8").kv_cache_size_tokens

# %% [markdown]
# Some models are designed to store less.
# We compare three of them with Llama-3.1-8B, which stores every token in every layer.
# How much does one request of 32,768 tokens take in each?
# All three are larger than Llama; DeepSeek-V3 has eighty times as many parameters.
# Gemma would take 12 GiB if all of its layers stored every token.

# %%
llama = planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="L4", max_model_len=32768)
gemma = llama.changed(model="google/gemma-3-12b-it")
deepseek = llama.changed(model="deepseek-ai/DeepSeek-V3")
qwen_next = llama.changed(model="Qwen/Qwen3-Next-80B-A3B-Instruct")
learn.per_request(llama, gemma, deepseek, qwen_next)

# %% [markdown]
# None of the four starts on one L4 with that length, but a request takes the same memory on every card.
# Here are the groups of their layers, with vLLM's names of their kinds.

# %%
gemma.kv_groups, deepseek.kv_groups, qwen_next.kv_groups

# %% [markdown]
# ### Exercise 3.3: Three models that store less (2 minutes)
#
# How does each model save memory?
# Answer with a letter for each of `gemma`, `deepseek` and `qwen_next`.
#
# - `a`: most layers keep only the most recent tokens (a window)
# - `b`: each layer stores one small vector for each token, shared by all heads
# - `c`: most layers keep one state of fixed size, whatever the length

# %% tags=["learner"]
learn.exercise("3.3").check(gemma=..., deepseek=..., qwen_next=...)

# %% tags=["solution"]
learn.exercise("3.3").check(gemma="a", deepseek="b", qwen_next="c")

# %% [markdown] tags=["solution"]
# Each with its figure:

# %% tags=["solution"]
learn.exercise("3.3").solution()

# %% [markdown]
# One token in three of them, on one scale.
# Dashed layers forget what is older than their window.

# %%
learn.picture("token", llama, gemma, deepseek)

# %% [markdown]
# ## Drag: length against number, once more
#
# Here the weights and the cache are in fp8.
# Predict how many requests of 4,096 tokens fit if four of 32,768 do, then drag the length.
# Watch two figures: the tokens of the cache, and the requests at once.

# %%
learn.slide(
    desk.changed(quantization="fp8", kv_cache_dtype="fp8"),
    vary="max_model_len",
    values=(1024, 2048, 4096, 8192, 16384, 24576, 32768, 40960),
)

# %% [markdown]
# ## Explain
#
# All requests together could need about eighty times what the cache holds.
# Why does vLLM start, and what happens when they all come?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(3, ...)

# %% [markdown]
# ## Make: room for long documents
#
# ### Exercise 3.4: Long documents (3 minutes)
#
# Six visitors at once, each with up to 16,384 tokens.
# Make a plan for Qwen/Qwen3-8B on one L4 whose KV cache holds all of that.
# Lesson 2 helps: smaller weights leave more room.

# %% tags=["learner"]
mine = ...
learn.exercise("3.4").check(plan=mine)

# %% tags=["solution"]
mine = desk.changed(max_model_len=16384, quantization="fp8", kv_cache_dtype="fp8")
learn.exercise("3.4").check(plan=mine)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `which is larger than the available KV cache memory (… GiB). Based on the available memory, the estimated maximum model length is …`
#
#   One request of the full length does not fit.
#   **Try first**: a smaller `max_model_len`, or `kv_cache_dtype="fp8"`.
# - `No available memory for the cache blocks.`
#
#   No memory is left for the KV cache.
#   **Try first**: smaller weights, or a higher `gpu_memory_utilization`.
#
# ## Key points
#
# - A token costs layers x KV heads x numbers in a head x 2 x bytes of a number.
# - In that product, count KV heads instead of attention heads, and count both keys and values.
# - vLLM allocates whole blocks for tokens that exist, not for `max_model_len`.
# - The same cache holds few long requests or many short ones.
# - Some models need less for a token because of windows, latent attention or states, which `kv_groups` shows.
#
# ## On your own
#
# Plan Qwen/Qwen3-14B with `tensor_parallel_size=2`.
# Each card then stores half of the KV heads. How many bytes does a token cost on one card?
#
# ## In practice
#
# Prefix caching lets requests with the same beginning share blocks, so a long common instruction is stored once.
# An fp8 cache can change answers slightly: try it with your own questions.
# A user whose request is preempted sees a pause.
#
# ## Further reading
#
# - `docs/workshop/pieces.md`, "A day at the desk", shows caches of models with windows and states.
# - `docs/compare.md`, "Sweeps", has tables and charts over lengths, dtypes and GPUs.
#
# Your progress in this lesson:

# %%
learn.progress(3)

# %% [markdown]
# ## Next
#
# **[4. The rest of the budget](4_the_rest_of_the_budget.ipynb)**: what are all the other lines, and which of them can you shrink?
# Before you go on: which of the five factors of a token would you forget first?
