"""Changes that make a plan start or serve more, each planned again.

`advising` collects candidates from the `makers`, one per kind of change, ranks them and
adds warnings; `trying` plans each candidate and keeps those that help; `combining`
plans several together. `situation.CostClass` says what a change costs.
"""

from planner.solve.advice.advising import advise as advise
from planner.solve.advice.result import Advice as Advice
from planner.solve.advice.result import AdviceGroup as AdviceGroup
from planner.solve.advice.result import AdviceItem as AdviceItem
from planner.solve.advice.situation import CostClass as CostClass
