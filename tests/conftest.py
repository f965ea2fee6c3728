"""What holds for every test: nothing leaves this machine, nothing reaches the user's own files."""

import functools
import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.network import OFFLINE, NetworkGuard
from tests.workers import processes, turn

# In tiny models threads wait for each other. Before the conftest of tests/training imports torch, which reads it once: a
# run and the process that goes on with it round alike on the same number of threads only.
os.environ["OMP_NUM_THREADS"] = "1"

GUARD = pytest.StashKey[NetworkGuard]()
HOME = Path(tempfile.mkdtemp(prefix="assay-tests-"))

PRIVATE = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "SYSTEM", "SPACE_ID", "ASSAY_CHAIN")
"""A developer's own settings; a test that wants one sets it itself."""

for each in PRIVATE:
    os.environ.pop(each, None)
os.environ.update(OFFLINE)
os.environ["HF_HOME"] = str(HOME / "huggingface")
os.environ["GRADIO_TEMP_DIR"] = str(HOME / "gradio")
os.environ["ASSAY_DATABASE_URL"] = f"sqlite:///{HOME / 'assay.db'}"
os.environ["ASSAY_REPORTS"] = str(HOME / "reports")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Say how many processes `-n auto` means."""
    return processes(config.args)


def hands_out_tests(config: pytest.Config) -> bool:
    """Whether this process runs no test itself, but hands them to workers, which come here too."""
    return config.getoption("dist") != "no" and bool(config.getoption("tx"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process that shares the tests with others, put those of long files first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn(item.path))


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for garbage: torch and gradio alone make it take half a second."""
    gc.enable()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Set the surroundings of processes that tests start, and shut the network, in every process that runs tests."""
    if hands_out_tests(config):
        return
    gc.disable()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent / "guarded")
    guard = NetworkGuard()
    guard.install()
    config.stash[GUARD] = guard
    slow = [HealthCheck.too_slow]  # seconds are no measure on a busy machine
    settings.register_profile("assay", deadline=None, suppress_health_check=slow)
    settings.load_profile("assay")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the run left behind."""
    shutil.rmtree(HOME, ignore_errors=True)
    if not hands_out_tests(config):
        config.stash[GUARD].remove()


@functools.cache
def is_online() -> bool:
    """Whether the package index answers; asked once."""
    try:
        socket.create_connection(("pypi.org", 443), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True)
def network_guard(request: pytest.FixtureRequest) -> Iterator[NetworkGuard]:
    """Fail the test if anything in it tried to reach another machine, caught or not.

    A test marked `network` is let through where there is one. A test that means to try clears `attempts` itself.
    """
    guard = request.config.stash[GUARD]
    guard.attempts.clear()
    guard.lifted = request.node.get_closest_marker("network") is not None
    if guard.lifted and not is_online():
        guard.lifted = False
        pytest.skip("this machine cannot reach pypi.org")
    yield guard
    guard.lifted = False
    if guard.attempts:
        pytest.fail(f"this test tried to reach {', '.join(guard.attempts)}; see tests/network.py")
