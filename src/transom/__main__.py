"""`python -m transom` is the command `transom`."""

import sys

from transom.cli import main

sys.exit(main())
