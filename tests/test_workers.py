import pytest

from tests.workers import MEMORY, TESTS, cores, processes, turn

PLENTY = 2 * cores() * MEMORY


@pytest.mark.parametrize(
    "names",
    [["tests/test_house.py"], ["tests/test_house.py::test_it[a/b]", "tests/hub/test_cards.py"]],
)
def test_single_files_are_run_by_pytest_itself(names):
    assert processes(names, PLENTY) == 0


@pytest.mark.parametrize("names", [["tests"], ["tests/evals", "tests/test_house.py"]])
def test_folders_get_a_process_for_each_core_that_memory_allows(names):
    assert processes(names, PLENTY) == (cores() if cores() > 1 else 0)
    assert processes(names, 2 * MEMORY) in (2, 0)
    assert processes(names, MEMORY) == 0


def test_files_that_take_long_are_handed_out_before_those_that_take_seconds():
    names = ["test_house.py", "evals/test_plain.py", "lab/test_app.py", "browser/test_spaces.py"]
    assert sorted(names, key=lambda name: turn(TESTS / name)) == [
        "browser/test_spaces.py",
        "lab/test_app.py",
        "test_house.py",
        "evals/test_plain.py",
    ]
