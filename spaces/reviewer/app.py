"""The Review tab alone: drop a paper, read concerns where they stand in it, correct and export them."""

import os

from lab.commands.serve import open_lab
from lab.settings import from_environment
from lab.space import prepare

if __name__ == "__main__":
    prepare(os.environ)
    open_lab(from_environment(), tabs=("Review",))
