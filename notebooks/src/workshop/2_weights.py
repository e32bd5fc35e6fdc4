# %% [markdown]
# # 2. Weights
#
# **What you will do**: find out how the library can run a model that is larger than its card.
#
# **What you will learn**:
#
# - compute the bytes of a model from its number of parameters
# - say what quantization makes smaller, and what it leaves
# - split a model across two cards
#
# **What you need**: lesson 1, or its key points. No GPU, no network, no account.
#
# **Time**: about 20 minutes, 10 of them for exercises.
#
# **Questions**:
#
# - "The larger model has 14 billion parameters. Is that 14 GB?"
# - "FP8 halves the weights, does it not?"
# - "Do two cards of 24 GB make one of 48?"

# %% [markdown]
# ## The story
#
# The help desk works, but visitors find some answers too simple.
# Your colleague wants Qwen3-14B instead of Qwen3-8B.
# The library can buy a second L4 if it has to.

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
learn.words("weights", "quantised weights", "tensor parallel", "rank")

# %% [markdown]
# ## Predict: how large is the larger model?
#
# Qwen3-14B has 14.8 billion parameters.
# A parameter is one number, and vLLM stores it in bfloat16, a format of 16 bits.
# How much memory do the weights take?

# %%
guess = learn.predict("weights of Qwen3-14B", ...)
guess

# %% [markdown]
# ## Run: the larger model on the same card
#
# The lesson starts from the desk of lesson 1.
# `changed(model=...)` replaces its model.

# %%
desk = learn.checkpoint(2)
larger = desk.changed(model="Qwen/Qwen3-14B")
larger

# %% [markdown]
# The model does not even load.
# Your guess and the plan:

# %%
guess.reveal(
    larger.limiting_rank.line("weights").size_bytes,
    larger.limiting_rank.line("weights").why,
    learn.slips(2),
)

# %% [markdown]
# ### Exercise 2.1: From parameters to bytes (3 minutes)
#
# There is an even larger model, Qwen3-32B, with 32.8 billion parameters.
# How much memory do its weights take in bfloat16?
# Write the size with its unit: a GiB is 7 % more than a GB, and for whole files that counts.
# And how many L4 cards do the weights alone need, if vLLM may use 20.27 GiB of each, as the plan above says?

# %% tags=["learner"]
learn.exercise("2.1").check(weights=..., cards=...)

# %% tags=["solution"]
learn.exercise("2.1").check(weights="65.6 GB", cards=4)

# %% [markdown] tags=["solution"]
# The arithmetic:

# %% tags=["solution"]
learn.exercise("2.1").solution()

# %% [markdown]
# ## Investigate: what are weights made of?
#
# A model has a few kinds of parts.
# The embeddings turn tokens into vectors, and the head (`lm_head`) turns vectors into logits, one for each token of the vocabulary.
# Between them are layers: attention looks at the other tokens, the mlp processes each token by itself, and small norms keep the numbers in range.
# Open "The arithmetic" of the weights to see the size of each part.

# %%
learn.lines(desk)

# %% [markdown]
# Quantization stores weights in fewer bits.
# It is like printing the books on thinner paper: they say nearly the same and take less room.
# With `quantization="fp8"`, vLLM does this while it loads the model, with 8 bits instead of 16.

# %%
planner.compare(desk, desk.changed(quantization="fp8"))

# %% [markdown]
# ### Exercise 2.2: Half the bytes? (2 minutes)
#
# How much memory do the weights of Qwen3-8B take with `quantization="fp8"`?
# And which large part keeps its 16 bits?
#
# - `a`: nothing, every part is halved
# - `b`: attention
# - `c`: the embeddings and the head (lm_head)
# - `d`: the mlp

# %% tags=["learner"]
learn.exercise("2.2").check(weights=..., stays=...)

# %% tags=["solution"]
learn.exercise("2.2").check(
    weights=desk.changed(quantization="fp8").limiting_rank.line("weights").size_bytes,
    stays="c",
)

# %% [markdown] tags=["solution"]
# Both accounts:

# %% tags=["solution"]
learn.exercise("2.2").solution()

# %% [markdown]
# ## Modify: a second card
#
# `tensor_parallel_size=2` splits every large part in two, one half for each card.
#
# ### Exercise 2.3: Two cards (2 minutes)
#
# Before you look: about how much memory do the weights of Qwen3-14B take on each of the two cards?
# And which part is stored in full on both cards?
#
# - `a`: attention
# - `b`: the mlp
# - `c`: the norms
# - `d`: the embeddings

# %% tags=["learner"]
learn.exercise("2.3").check(each_card=..., copied=...)

# %% tags=["solution"]
learn.exercise("2.3").check(each_card="13.8 GiB", copied="c")

# %% [markdown] tags=["solution"]
# Both accounts:

# %% tags=["solution"]
learn.exercise("2.3").solution()

# %% [markdown]
# Now the plan, whose lines are for one card.
# Is a card's share exactly half of the model?

# %%
pair = larger.changed(tensor_parallel_size=2)
pair

# %% [markdown]
# And here is what each card holds of each part.

# %%
learn.picture("two cards", larger, pair)

# %% [markdown]
# ## Drag: the number of cards
#
# How many cards does the larger model need, and how much room does each further card add?
# Predict what happens to the weights on each card when the number of cards doubles, then drag.

# %%
learn.slide(
    larger,
    vary="tensor_parallel_size",
    values=(1, 2, 4, 8),
)

# %% [markdown]
# ## Explain
#
# Your colleague says: "FP8 halves the model." What do you answer?
#
# Write a sentence or two in quotes instead of the dots.

# %%
learn.explain(2, ...)

# %% [markdown]
# ## Make: the desk with the larger model
#
# ### Exercise 2.4: A larger model (3 minutes)
#
# Make a plan for Qwen/Qwen3-14B on at most two L4.
# It takes requests of 8,192 tokens and has a KV cache for four of them.
# There is more than one way.

# %% tags=["learner"]
mine = ...
learn.exercise("2.4").check(plan=mine)

# %% tags=["solution"]
mine = planner.plan(
    "Qwen/Qwen3-14B", gpu="L4", tensor_parallel_size=2, max_model_len=8192
)
learn.exercise("2.4").check(plan=mine)

# %% [markdown]
# Not every number of cards works: vLLM splits attention by heads, and their number is not divisible by 3.

# %%
larger.changed(tensor_parallel_size=3)

# %% [markdown]
# ## What could go wrong
#
# What vLLM says, what that means, and what to try first.
#
# - `torch.OutOfMemoryError: CUDA out of memory.`
#
#   While loading: the weights alone are larger than the card.
#   **Try first**: fewer bytes for each weight, or more cards.
# - `Total number of attention heads (…) must be divisible by tensor parallel size (…).`
#
#   The heads cannot be divided evenly.
#   **Try first**: 2, 4 or 8 cards.
#
# ## Key points
#
# - Weights: parameters x bytes of the number format; bfloat16 takes 2 bytes.
# - Bits are not bytes: 16 bits are 2 bytes, 8 bits are 1.
# - Quantization halves the large matrices of the layers; embeddings, head and norms keep their size.
# - Tensor parallelism gives each card its share of the large parts, and a copy of the small ones.
#
# ## On your own
#
# Does Qwen3-32B fit on one H100?
# Plan it with 8,192 tokens, and then with its full length.
#
# ## In practice
#
# Quantized weights can change answers slightly: try them with your own questions.
# Many models are published in fp8 or in 4 bits; then the files are smaller too.
# Two cards communicate at every layer, so they are not twice as fast.
#
# ## Further reading
#
# - `docs/memory-model.md`, "What vLLM measures when it starts", says when the weights are loaded and how vLLM logs them.
# - `docs/compare.md`, "Plans side by side", says what a comparison shows.
#
# Your progress in this lesson:

# %%
learn.progress(2)

# %% [markdown]
# ## Next
#
# **[3. The KV cache](3_the_kv_cache.ipynb)**: more visitors come, with longer documents.
# How many fit at once, and why do some models hold many more?
# Before you go on: which part of a model would you have forgotten?
