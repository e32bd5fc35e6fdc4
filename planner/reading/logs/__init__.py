"""Logs, errors and running servers: what they tell, why a start failed, what helps."""
