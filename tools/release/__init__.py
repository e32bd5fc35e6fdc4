"""A new release of vLLM: what it changes, found from its wheel alone.

`make release VLLM=X` runs `python -m tools.release X`; docs/adding-a-release.md says
what its report means and what is left to do by hand.

    installing.py   an environment of the release's own, kept in the planner's cache
    sources.py      names and defaults that its sources list
    symbols.py      what `Source:` lines of the planner cite there, with its syntax
    sentences.py    the planner's wordings of vLLM's log and errors, found there or not
    answers.py      a fixed list of cases, answered by the release itself
    data.py         the planner's data files, each with what this release changes
    record.py       all of that for one release, kept for comparing the next with it
    report.py       the difference of two records, as Markdown
    judging.py      every body that differs: closed with a reason, or left for a person
    differing.py      by its form without logging, messages and other platforms
    evidence.py       which cases ran it, and which of them are answered otherwise
    together.py       what is one reading
    ranking.py        by what rests on it; touched.py: how many models it serves
    missing.py      what the planner lacks of each new name
    page.py         one page of what remains, the edits, and `Change`s to fill in
    rehearsed.py    the same of a release that is known, without hindsight
"""
