"""`python -m ac4k` is the command `ac4k`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
