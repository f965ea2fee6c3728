"""Blind votes on the answers of answers.jsonl, and nothing else; where votes are kept is in README.md."""

import os
from pathlib import Path

from lab.app import open_arena
from lab.gpu import prepare

if __name__ == "__main__":
    prepare(os.environ, chains=[])
    open_arena(os.environ, Path(__file__).with_name("answers.jsonl"))
