"""What of the planner works on this machine, and what to do about the rest.

Read in this order: `finding` (what one check says), `software`, `hardware` and
`network` (the checks), `examining` (all of them), `writing` (how the answer looks).
"""

from planner.doctor.examining import NAMES, Report, examine
from planner.doctor.finding import Finding, State

__all__ = ["NAMES", "Finding", "Report", "State", "examine"]
