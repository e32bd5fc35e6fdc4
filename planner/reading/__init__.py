"""Read what people have: a command, a manifest, code, a log, an error, a server.

`read` says what a text is (`recognising`), finds the arguments in it (`command`,
`container`, `manifests`, `code`, `logs`) with their places (`passage`, `shell`,
`sites`), and returns a `Reading` that plans, explains and gives the text back. `check`
(`checking`) plans every start of files.
"""

from planner.reading.checking import Checked, Checks, check
from planner.reading.reading import Kind, Reading
from planner.reading.recognising import read

__all__ = ["Checked", "Checks", "Kind", "Reading", "check", "read"]
