"""Read what people have: a command, a manifest, code, a log, an error, a question.

`read` (`recognising`) goes through five stages: a text is split into documents
(`splitting`), each evaluated by its language (`scripts`, `python`, `documents`), starts
of vLLM are recognised among the values (`starts`), every piece is accounted for
(`account`), and edits go back through the places of the values (`passage`, `sites`,
`rewriting`). What starts nothing is a question (`questions`) or a log (`logs`).
The result is a `Reading` (`reading`); `check` (`checking`) plans every start of files.
"""

from planner.reading.checking import Checked, Checks, check
from planner.reading.reading import Kind, Reading
from planner.reading.recognising import read

__all__ = ["Checked", "Checks", "Kind", "Reading", "check", "read"]
