"""What to change so that vLLM starts, or holds more: each change planned again.

`advising` asks the `makers`, one a kind of change, for candidates; `judging` plans each
and keeps what helps; `ranking` orders them; `pairs` tries two together; `warned` says
what to mind.
"""

from planner.advice.advising import advise as advise
from planner.advice.result import Advice as Advice
from planner.advice.result import AdviceItem as AdviceItem
