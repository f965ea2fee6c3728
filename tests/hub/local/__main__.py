"""`python -m tests.hub.local`: serve the double of the Hub, to rehearse a publication by hand."""

import argparse
import signal
from pathlib import Path

from tests.hub.local import Hub, LocalHub


def main() -> None:
    """Serve until stopped, and say what to export so that every client speaks to it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.local", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the contents of files lie")
    parser.add_argument("--port", type=int, default=7870)
    parser.add_argument("--user", action="append", metavar="TOKEN=NAME", help="default: hf_local=you")
    asked = parser.parse_args()
    names = dict(each.split("=", 1) for each in asked.user or ["hf_local=you"])
    with LocalHub(Hub(asked.folder, names, ()), asked.port) as running:
        print(f"export HF_ENDPOINT={running.url} HF_TOKEN={next(iter(names))}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
