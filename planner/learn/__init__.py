"""Support for lessons: exercises that check themselves, predictions, progress.

Read in this order: `quantity` (what a learner wrote), `parts` (kinds of answers and
their judgement), `exercise`, `lessons/` (one module a lesson), `progress`.
Nothing is sent anywhere; what is kept lies in the planner's folder of user data.
"""

from planner.learn.catalogue import exercise, exercises, progress
from planner.learn.prediction import predict
from planner.learn.progress import forget

__all__ = ["exercise", "exercises", "forget", "predict", "progress"]
