"""Measurements of starts on the user's own GPUs, stored for later plans.

Read in this order: `key` (what identifies a start), `record` (one start), `store` and
`reading` (files), `apply` (a record becomes the lines of a plan);
`planner.confirming.calibration` makes a record of a confirmation.
PLANNER_CALIBRATION=off disables all of it.
"""
