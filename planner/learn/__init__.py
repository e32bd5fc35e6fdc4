"""Support for lessons: exercises that check themselves, predictions, progress.

Read in this order: `quantity` (numbers as learners write them), `parts` (kinds of
answers and how they are judged), `exercise`, `catalogue` (every exercise, and the plan
that each lesson starts from), `lesson` and `lessons/` (for each lesson its words, and
the figures in them), `progress`; `prediction` and `explanation` (a guess, and words);
`starts`, `pictures`, `drawings`, `own_plan` (what lessons show); `slide`, `living`,
`guessing`, `debugging` (what a page shows without a kernel).
Nothing is sent anywhere; progress is kept in the planner's folder of user data.
"""

from planner.learn.account import (
    certainty,
    lines,
    recorded,
    says,
    start_here,
    words,
)
from planner.learn.catalogue import (
    checkpoint,
    exercise,
    exercises,
    explain,
    progress,
    slips,
)
from planner.learn.debugging import debug_this_start
from planner.learn.drawings import picture
from planner.learn.guessing import guess_the_bar
from planner.learn.living import living_kv_cache
from planner.learn.own_plan import take_home
from planner.learn.pictures import per_request
from planner.learn.prediction import predict
from planner.learn.progress import forget, set_aside
from planner.learn.slide import slide
from planner.learn.starts import dry_run_here, published

__all__ = [
    "certainty",
    "checkpoint",
    "debug_this_start",
    "dry_run_here",
    "exercise",
    "exercises",
    "explain",
    "forget",
    "guess_the_bar",
    "lines",
    "living_kv_cache",
    "per_request",
    "picture",
    "predict",
    "progress",
    "published",
    "recorded",
    "says",
    "set_aside",
    "slide",
    "slips",
    "start_here",
    "take_home",
    "words",
]
