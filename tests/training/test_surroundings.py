import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest

from training.run.folder import code_revision, host, versions


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_the_code_revision_is_the_commit_and_says_when_files_were_edited_since(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")
    assert code_revision(checkout) == commit
    (checkout / "code.py").write_text("2\n", encoding="utf-8")
    assert code_revision(checkout) == f"{commit}+changes"


def test_a_new_file_that_git_does_not_know_is_no_change_of_the_code(checkout: Path):
    (checkout / "run.json").write_text("{}", encoding="utf-8")
    assert code_revision(checkout) == git(checkout, "rev-parse", "HEAD")


def test_code_outside_git_has_no_revision(tmp_path: Path):
    assert code_revision(tmp_path / "nowhere") is None


def test_the_description_of_the_machine_names_neither_it_nor_its_user():
    described = host()
    assert described["cores"] == os.cpu_count()
    assert float(described["memory_gb"]) > 0
    texts = " ".join(str(value) for value in described.values()).split()
    assert os.uname().nodename not in texts
    assert getpass.getuser() not in texts


def test_versions_name_what_trained_and_what_judged():
    found = versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "trl", "peft", "transformers", "verifiers", "confidence"} <= set(found)
