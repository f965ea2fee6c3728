"""What a training command says: plain lines on standard error, so a pipe gets nothing but results."""

import os
import sys


def say(text: str) -> None:
    """Write one line; of several processes only the first speaks."""
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def announce(share: float, message: str) -> None:
    """Report progress as `evals.model.Progress` does, a line at a time."""
    say(f"[{share:4.0%}] {message}")
