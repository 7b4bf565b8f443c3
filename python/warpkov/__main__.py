"""``python -m warpkov`` is the command ``warpkov``."""

import sys

from ._cli import main

if __name__ == "__main__":
    sys.exit(main())
