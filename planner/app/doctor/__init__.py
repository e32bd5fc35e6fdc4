"""Which parts of the planner work on this machine, and what to do about the rest.

`machine` has the checks, `checks` runs them and writes the report.
"""

from planner.app.doctor.checks import NAMES, Report, examine
from planner.app.doctor.machine import Finding, Health

__all__ = ["NAMES", "Finding", "Health", "Report", "examine"]
