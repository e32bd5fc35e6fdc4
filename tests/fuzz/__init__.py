"""Random input for every entry point: a plan, a refusal or one sentence, and no more.

`values` draws odd values and spoils good ones, `entries` gives them to the planner, and
`running` repeats that for minutes: `make fuzz MINUTES=10`. A case is an entry's name
and a number, which `python -m tests.fuzz.running ENTRY NUMBER` repeats; `seeds.txt`
holds those that once failed, and `tests/test_fuzz.py` runs them all.
"""
