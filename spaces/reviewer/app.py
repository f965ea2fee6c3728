"""The Papers tab alone: drop a paper, read concerns where they stand in it, correct and export them."""

import os

from lab.commands.lab import open_lab
from lab.gpu import prepare
from lab.settings import from_environment

if __name__ == "__main__":
    settings = from_environment()
    prepare(os.environ, chains=[settings.reviewer])
    open_lab(settings, tabs=("Papers",))
