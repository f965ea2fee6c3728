"""Run every benchmark, one after another, each in a process of its own.

    make bench                      all of them
    make bench ARGS=serving         one

A benchmark is a module beside this one whose `main()` prints a table of ratios against a named
reference measured in the same run. Absolute times belong to the machine named in the first line.
"""

import os
import platform
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.bench._measure import SMALL

FOLDER = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def processor() -> str:
    """Return this processor's name, and which of the instructions it has that speed depends on (Linux only)."""
    file = Path("/proc/cpuinfo")
    told = re.findall(r"^(?:model name|flags)\s*: (.*)$", file.read_text() if file.exists() else "", re.MULTILINE)
    name, flags = told[:2] if len(told) > 1 else (platform.processor(), "")
    return f"{name} ({', '.join(each for each in flags.split() if re.fullmatch('avx2|avx512f|.*bf16', each))})"


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks (all when none is named); return 1 if one failed."""
    if unknown := set(wanted) - set(NAMES):
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        return 2
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(processor())
    failed = []
    for name in wanted or NAMES:
        started = time.monotonic()
        print(f"\n== {name}", flush=True)
        code = f"from tests.bench.{name} import main; main()"
        environment = {"HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False", **os.environ}
        if SMALL:
            import_module(f"tests.bench.{name}").main()
            continue
        done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parents[1], env=environment, check=False)
        print(f"({time.monotonic() - started:.0f} s)", flush=True)
        failed += [name] if done.returncode else []
    print(f"\nfailed: {', '.join(failed)}" if failed else "")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
