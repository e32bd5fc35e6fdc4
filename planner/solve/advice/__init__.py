"""Changes that make a plan start or serve more, each planned again.

`advising` collects candidates from the `makers`, one per kind of change, ranks them and
tries pairs; `items` plans each candidate and keeps those that help; `caveats` adds
warnings.
"""

from planner.solve.advice.advising import advise as advise
from planner.solve.advice.result import Advice as Advice
from planner.solve.advice.result import AdviceItem as AdviceItem
