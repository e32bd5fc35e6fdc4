"""The app's server: `planner app`."""

import sys

# jsonschema builds a grammar of web addresses when it is imported: a second of work
# that nothing here uses. It skips that where the package is missing.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
