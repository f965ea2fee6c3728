"""The image itself is built by nobody here; each of its steps is, as a plain user in an empty directory."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[1]
NOBODY = 65534
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
STEPS = [line.partition(" ")[::2] for line in TEXT.splitlines() if line and not line.startswith("#")]


def wait_for(url, process, seconds=60):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and process.poll() is None:
        try:
            return httpx.get(url).text
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"no page; exit code {process.poll()}")


def test_the_image_runs_as_a_plain_user_and_keeps_what_matters_on_its_volume():
    settings = {
        name: value for verb, value in STEPS if verb == "ENV" for name, value in re.findall(r"(\w+)=(\S+)", value)
    }
    assert all("/data/" in value for value in settings.values())
    assert ("VOLUME", "/data") in STEPS and ("USER", "1000") in STEPS
    assert {"ASSAY_DATABASE_URL", "ASSAY_PEOPLE", "ASSAY_RUNS"} <= set(settings)


@pytest.fixture
def open_folder():
    """A folder that a plain user can enter; pytest closes its own to all but the one who runs the tests."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.network
def test_its_steps_make_a_lab_that_asks_for_names_in_an_empty_directory(open_folder):
    home = open_folder / "home"
    here, data = home / "app", home / "data"
    for folder in (home, here, data):
        folder.mkdir()
        shutil.chown(folder, NOBODY, NOBODY)
    env = {word: value for word, value in os.environ.items() if word == "PATH" or word.startswith("PIP_")}
    env |= {"HOME": str(home), "TORCH_INDEX": "", "PIP_NO_COMPILE": "1"}  # little of it is imported here

    def run(command, **more):
        text = command.replace("/app", str(here)).replace("/data", str(data))
        return subprocess.run(["sh", "-ec", text], cwd=here, env=env | more, user=NOBODY, group=NOBODY, check=True)

    probe = ["-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    pythons = [
        each
        for each in (sys.executable, "/usr/bin/python3")
        if subprocess.run(["sh", "-c", '"$@"', "sh", each, *probe], user=NOBODY, check=False).returncode == 0
    ]
    if not pythons:
        pytest.skip("no Python here that a plain user can run")
    is_plain = False
    for verb, value in STEPS:
        is_plain = is_plain or verb == "USER"
        if verb == "ENV":
            env |= {name: text.replace("/data", str(data)) for name, text in re.findall(r"(\w+)=(\S+)", value)}
        elif verb == "COPY":
            *sources, _ = re.sub(r"--\S+ ", "", value).split()
            tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
            for path in tracked.split("\n")[:-1] if sources == ["."] else sources:
                (here / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, here / path, follow_symlinks=False)
            subprocess.run(["chown", "-Rh", f"{NOBODY}:{NOBODY}", here], check=True)
        elif verb == "RUN" and is_plain:
            run(value.replace("python3", pythons[0]))
    run(".venv/bin/assay people add ada --role admin", ASSAY_PASSWORD="a long password")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [here / ".venv/bin/assay", "lab", "--host", "0.0.0.0", "--port", port]
    with subprocess.Popen(command, cwd=home, env=env, user=NOBODY, group=NOBODY) as lab:
        try:
            assert '"auth_required":true' in wait_for(f"http://127.0.0.1:{port}/", lab)
            limit = time.monotonic() + 60
            while not (data / "assay.db").exists() and lab.poll() is None and time.monotonic() < limit:
                time.sleep(0.1)
        finally:
            lab.kill()
    assert {each.name for each in data.iterdir()} >= {"assay.db", "people"}
