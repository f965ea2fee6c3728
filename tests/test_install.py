"""Setting up: what is missing is installed, what is broken is mended, what fails is explained."""

import shutil
import sys
import threading

import pytest

import install
from install import SetupError, Venv, check_python, fingerprint


@pytest.fixture
def checkout(tmp_path):
    """A folder with the files that setup reads, asking for one package that exists nowhere."""
    for name in install.WATCHED_BY_TESTS:
        (tmp_path / name).write_text("")
    (tmp_path / "requirements.txt").write_text("a-package-of-this-test==1.0\n")
    return tmp_path


def test_an_old_python_is_named_with_what_to_do_and_a_new_one_accepted():
    for version in ((3, 8, 1), (3, 10, 14)):
        with pytest.raises(SetupError, match=r"needs 3\.11 or newer.*PYTHON="):
            check_python(version)
    check_python((3, 11, 0))
    check_python((3, 14, 2))


def test_a_second_run_has_nothing_to_do_until_a_pin_changes(checkout):
    venv = Venv(checkout / ".venv", checkout)
    venv.python.parent.mkdir(parents=True)
    venv.python.touch()
    assert not venv.is_ready()
    venv.stamp.write_text(f"{fingerprint(checkout)} {venv.path}\n")
    assert venv.is_ready()
    venv.stamp.write_text(f"{fingerprint(checkout)} {checkout / 'elsewhere' / '.venv'}\n")
    assert not venv.is_ready(), "it was copied from elsewhere"
    venv.stamp.write_text(f"{fingerprint(checkout)} {venv.path}\n")
    (checkout / "requirements.txt").write_text("a-package-of-this-test==2.0\n")
    assert not venv.is_ready()


def test_the_lab_is_ready_without_what_only_tests_need_and_tests_add_that_alone(checkout, monkeypatch):
    venv, installed = Venv(checkout / ".venv", checkout), []
    venv.python.parent.mkdir(parents=True)
    venv.python.touch()
    monkeypatch.setattr(
        venv,
        "_pip",
        lambda _, *arguments: installed.append(arguments[arguments.index("-r") + 1] if "-r" in arguments else "assay"),
    )
    venv.install()
    assert installed == ["requirements.txt", "requirements-embedded.txt", "assay"]
    assert venv.is_ready() and not venv.is_ready(tests=True)
    venv.install(tests=True)
    assert installed[3:] == ["requirements-dev.txt", "requirements-engines.txt"] and venv.is_ready(tests=True)
    (checkout / "requirements-dev.txt").write_text("a-package-of-this-test==2.0\n")
    assert venv.is_ready() and not venv.is_ready(tests=True)


@pytest.mark.slow
def test_a_half_made_environment_is_made_anew_and_says_so(checkout, capsys):
    venv = Venv(checkout / ".venv", checkout)
    (venv.path / "lib").mkdir(parents=True)
    (venv.path / "lib" / "half").write_text("interrupted")
    venv.repair_or_create()
    assert install.run([str(venv.python), "-m", "pip", "--version"]).returncode == 0
    assert not (venv.path / "lib" / "half").exists()
    assert "half-made" in capsys.readouterr().err
    marker = venv.path / "kept"
    marker.touch()
    venv.repair_or_create()
    assert marker.exists(), "a whole environment is kept and updated"
    moved = checkout / "moved" / ".venv"
    shutil.copytree(venv.path, moved, symlinks=True)
    Venv(moved, checkout).repair_or_create()
    assert not (moved / "kept").exists(), "its commands still point at the old place"


def test_without_network_setup_says_what_to_do_and_stays_unstamped(checkout, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    venv = Venv(checkout / ".venv", checkout)
    venv.path.mkdir()
    venv.python = install.Path(sys.executable)
    with pytest.raises(SetupError, match=r"Without a network: connect.*run the same command again"):
        venv.install()
    assert not venv.is_ready()


def test_a_file_in_the_place_of_the_environment_is_left_alone(checkout):
    (checkout / ".venv").write_text("mine")
    with pytest.raises(SetupError, match="is not a folder"):
        Venv(checkout / ".venv", checkout).repair_or_create()
    assert (checkout / ".venv").read_text() == "mine"


def test_a_second_setup_waits_for_the_first(checkout, capsys):
    path = checkout / ".venv"
    entered = threading.Event()

    def second() -> None:
        with install.only_one(path):
            entered.set()

    with install.only_one(path):
        other = threading.Thread(target=second)
        other.start()
        assert not entered.wait(0.3)
    other.join(timeout=5)
    assert entered.is_set()
    assert "waiting for it" in capsys.readouterr().err
