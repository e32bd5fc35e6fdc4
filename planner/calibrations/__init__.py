"""What starts on this user's own GPUs measured, kept for later plans.

Read in this order: `folder` (where), `key` (under what), `record` (one start),
`store` (files), `keeping` (a confirmation becomes a record), `applying` (a record
becomes the lines of a plan). PLANNER_CALIBRATION=off leaves all of it aside.
"""
