"""Blind votes between the stages of a chain, and nothing else; where votes are kept is in README.md."""

import os

from lab.arena import open_arena
from lab.space import prepare

if __name__ == "__main__":
    prepare(os.environ)
    open_arena(os.environ)
