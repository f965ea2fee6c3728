"""`python -m tests.hub.local`: serve the double of the Hub, to rehearse a publication by hand."""

import argparse
from pathlib import Path

from tests.hub.local import Hub, InjectedFault, serve


def main() -> None:
    """Serve until stopped, and say what to export so that every client speaks to it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.local", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the contents of files lie")
    parser.add_argument("--port", type=int, default=7870)
    parser.add_argument(
        "--user", action="append", default=[], metavar="TOKEN=NAME[:read]", help="default: hf_local=you"
    )
    parser.add_argument("--fault", action="append", default=[], metavar="CODE:N", help="answer the next N uploads so")
    asked = parser.parse_args()
    users = [each.partition("=")[::2] for each in asked.user or ["hf_local=you"]]
    names = {token: name.removesuffix(":read") for token, name in users}
    hub = Hub(asked.folder, names, (), readers={token for token, name in users if name.endswith(":read")})
    faults = (each.split(":") for each in asked.fault)
    hub.faults += [InjectedFault(status=int(code), times=int(times)) for code, times in faults]
    address = f"http://127.0.0.1:{asked.port}"
    told = f"export HF_ENDPOINT={address} HF_TOKEN={next(iter(names))}"
    serve(hub, asked.port, lambda: print(told, flush=True))


if __name__ == "__main__":
    main()
