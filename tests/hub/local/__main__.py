"""`python -m tests.hub.local`: serve the double of the Hub, to rehearse a publication by hand."""

import argparse
from pathlib import Path

from tests.hub.local import Hub, serve


def main() -> None:
    """Serve until stopped, and say what to export so that every client speaks to it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.local", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the contents of files lie")
    parser.add_argument("--port", type=int, default=7870)
    parser.add_argument("--user", action="append", metavar="TOKEN=NAME", help="default: hf_local=you")
    asked = parser.parse_args()
    names = dict(each.split("=", 1) for each in asked.user or ["hf_local=you"])
    told = f"export HF_ENDPOINT=http://127.0.0.1:{asked.port} HF_TOKEN={next(iter(names))}"
    serve(Hub(asked.folder, names, ()), asked.port, lambda: print(told, flush=True))


if __name__ == "__main__":
    main()
