"""Support for lessons: exercises that check themselves, predictions, progress.

Read in this order: `quantity` (what a learner wrote), `parts` (kinds of answers and
their judgement), `exercise`, `checkpoints` (where each lesson starts), `lessons/` (one
module a lesson), `progress`.
Nothing is sent anywhere; what is kept lies in the planner's folder of user data.
"""

from planner.learn.account import lines
from planner.learn.catalogue import exercise, exercises, progress
from planner.learn.checkpoints import checkpoint
from planner.learn.here import start_here
from planner.learn.prediction import predict
from planner.learn.progress import forget
from planner.learn.recorded import recorded
from planner.learn.words import words

__all__ = [
    "checkpoint",
    "exercise",
    "exercises",
    "forget",
    "lines",
    "predict",
    "progress",
    "recorded",
    "start_here",
    "words",
]
