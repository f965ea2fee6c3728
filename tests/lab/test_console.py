import sys

import pytest

from lab import cli
from lab.commands.tables import table_of


def test_brackets_in_an_error_reach_the_person_as_they_are(monkeypatch, capsys):
    words = ["assay", "chain", "show", "foo[/b]"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert "foo[/b]" in capsys.readouterr().err


def test_brackets_in_a_table_are_no_style(capsys):
    from rich.console import Console

    Console(file=sys.stdout).print(table_of("[b]", ["a[i]"], [["kmp-train[abstain:16]"]]))
    printed = capsys.readouterr().out
    assert "kmp-train[abstain:16]" in printed
    assert "a[i]" in printed
