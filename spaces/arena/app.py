"""Blind votes between the stages of a chain, and nothing else; where votes are kept is in README.md."""

import os

from lab.arena import open_arena, prepare
from lab.settings import from_environment

if __name__ == "__main__":
    prepare(os.environ, chains=[from_environment().chain])
    open_arena(os.environ)
