"""Write the tables anew and print what changed: `python -m tests.frozen [--only NAME]`."""

import argparse
import time

from tests.network import OFFLINE


def main() -> None:
    """Write the named table or all."""
    import os

    os.environ.update(OFFLINE)
    from tests.frozen import table
    from tests.frozen.script import FAILED
    from tests.frozen.verdicts import TABLES

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=TABLES, metavar="NAME", default=[])
    for name in options.parse_args().only or TABLES:
        start = time.process_time()
        was, now = table.load(name), TABLES[name]()
        found = table.differences(was, now)
        if failed := [key for key, value in now.items() if isinstance(value, dict) and FAILED in value]:
            print(f"{name} is not written, these fail:", *(f"  {key}: {now[key]}" for key in failed), sep="\n")
            continue
        table.save(name, now)
        print(f"{name}: {len(now)} rows, {time.process_time() - start:.1f} CPU s")
        if was and found:
            print(table.told(name, found).rpartition("\n")[0])


if __name__ == "__main__":
    main()
