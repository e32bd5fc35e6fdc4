"""`python -m planner` is the same as `planner`."""

import sys

from planner.app.cli import main

sys.exit(main())
