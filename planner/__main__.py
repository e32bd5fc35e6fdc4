"""`python -m planner` is the same as `planner`."""

import sys

from planner.cli import main

sys.exit(main())
