"""The command ``warpkov``."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

from . import _warpkov


def main() -> int:
    """Run the command line on the arguments of the process, and return its exit code."""
    # The command handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _find_nccl()
    return _warpkov.main(["warpkov", *sys.argv[1:]])


def _find_nccl() -> None:
    """Name the NCCL that is installed beside this package, which no variable of the shell need point to."""
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return
    folders = package.submodule_search_locations if package else None
    for folder in folders or []:
        library = Path(folder) / "lib" / "libnccl.so.2"
        if library.exists():
            os.environ.setdefault("WARPKOV_NCCL", str(library))
