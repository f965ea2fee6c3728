from tests.workers import MEMORY, TESTS, processes, turn


def test_folders_get_a_process_for_each_core_that_memory_allows_and_single_files_none():
    assert processes(["tests/test_house.py::test_it[a/b]", "tests/hub/test_publish.py"], 100 * MEMORY) == 0
    for names in (["tests"], ["tests/evals", "tests/test_house.py"]):
        assert processes(names, 100 * MEMORY) >= processes(names, 2 * MEMORY) in (0, 2)
        assert processes(names, MEMORY) == 0


def test_files_that_take_long_are_handed_out_before_those_that_take_seconds():
    names = ["test_house.py", "evals/test_plain.py", "lab/test_app.py", "browser/test_spaces.py", "test_frozen.py"]
    assert sorted(names, key=lambda name: turn(TESTS / name)) == [names[3], names[4], names[2], names[0], names[1]]
