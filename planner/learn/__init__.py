"""Support for lessons: exercises that check themselves, predictions, progress.

Read in this order: `quantity` (numbers as learners write them), `parts` (kinds of
answers and how they are judged), `exercise`, `catalogue` (every exercise, and the plan
that each lesson starts from), `lessons/` (one module per lesson), `progress`; then
`slide`, `kv_simulation`, `living`, `guessing` and `debugging` (what a page shows
without a kernel).
Nothing is sent anywhere; progress is kept in the planner's folder of user data.
"""

from planner.learn.account import lines, recorded, start_here, words
from planner.learn.catalogue import checkpoint, exercise, exercises, progress
from planner.learn.debugging import debug_this_start
from planner.learn.guessing import guess_the_bar
from planner.learn.living import living_kv_cache
from planner.learn.prediction import predict
from planner.learn.progress import forget
from planner.learn.slide import slide

__all__ = [
    "checkpoint",
    "debug_this_start",
    "exercise",
    "exercises",
    "forget",
    "guess_the_bar",
    "lines",
    "living_kv_cache",
    "predict",
    "progress",
    "recorded",
    "slide",
    "start_here",
    "words",
]
