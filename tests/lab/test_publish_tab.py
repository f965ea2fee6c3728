"""Publish: a tiny run's card and plan, its publication to a Hub on this machine as a job, and what is refused before that."""

from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import gradio as gr
import pytest
from huggingface_hub import HfApi, constants

from evals.errors import LabError
from hub import client
from lab.publishing import Order, PublicationPreview, preview_upload, publish
from lab.settings import EMBEDDED_RUNS
from lab.shared.runs import chains_of_runs
from lab.train.publish_panel import (
    Publishing,
    base_of,
    publish_in_page_words,
    receipts_of,
    shown_card,
    shown_plan,
    shown_receipts,
)
from tests.hub.local import Hub, LocalHub
from tests.lab.trainings import now, plain, record
from tests.lab.votes import services_in
from tests.models import tiny_chain
from training.models.base import no_progress
from training.models.manifest import read_chain
from training.run.folder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on a tiny base that no Hub holds."""
    folder = tiny_chain(tmp_path_factory.mktemp("runs"), ranks={"sft": 4})
    data = {"data": ["<img src=x onerror=alert(1)>.jsonl"]}
    RunFolder(folder).write(record("sft", stage="sft", status="finished", config=data))
    return folder


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    """A Hub on this machine, which HF_ENDPOINT names."""
    with LocalHub(Hub(tmp_path / "hub", {"hf_local": "you"})) as running:
        monkeypatch.setattr(client, "HfApi", partial(HfApi, running.url, "hf_local"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
        yield running.hub


def test_a_run_is_shown_as_it_will_be_then_published_as_a_job_and_leaves_a_receipt(run, local_hub):
    order = Order(str(run), "you/tiny", licence="mit", with_base=True)
    seen = preview_upload(order)
    assert [each.repo for each in seen.plans] == ["you/tiny-base", "you/tiny"]
    assert "2 files" not in (told := plain(shown_plan(seen)))
    assert "you/tiny A new repository" in told
    assert "adapter_model.safetensors new" in told
    front, words = shown_card(seen)
    assert "license: mit" in plain(front)
    assert "<h1>tiny" in words.lower() and "<details>" in words
    assert not words.startswith("---")
    assert local_hub.find("model", "you/tiny") is None, "nothing was written"

    said = []
    settings = asdict(order)
    done = publish(settings, lambda *far: said.append(far[2]), lambda: False, None)
    assert [each["repo"] for each in done] == ["you/tiny-base", "you/tiny"]
    assert "verifying by download" in said
    kept = receipts_of(run)
    assert {each.repo for each in kept} == {"you/tiny-base", "you/tiny"}
    assert kept[0].revision[:12] in plain(shown_receipts(run))
    assert "nothing will be uploaded" in plain(shown_plan(preview_upload(order)))
    again = publish(settings, lambda *far: None, lambda: False, {"done": 0, "total": 0})
    assert {each["outcome"] for each in again} == {"already there"}, "after a restart it goes on"
    with pytest.raises(LabError, match="stopped"):
        publish(settings, lambda *far: None, lambda: True, None)
    with pytest.raises(LabError, match="“assay publish adapter --create-pr”"):
        publish_in_page_words({**settings, "repo": "other/tiny"}, lambda *far: None, lambda: False, None)


def test_a_name_that_cannot_be_is_refused_before_anything_is_packed(run, local_hub):
    with pytest.raises(LabError, match="ORG/NAME"):
        Order(str(run), "tiny", with_base=True).pack(no_progress)


def test_what_must_be_corrected_is_told_with_the_words_of_the_page(run, local_hub):
    seen = PublicationPreview((), "", problem="you/tiny has a version v1.0; name a new one with --tag.")
    assert plain(shown_plan(seen)) == "you/tiny has a version v1.0; name a new one with “Version”."
    refused = preview_upload(Order(str(run), "you/tiny", licence="mit", with_base=True)).plans
    assert not any("--" in plain(shown_plan(PublicationPreview([each], ""))) for each in refused)


def test_receipts_of_the_stages_below_stand_with_those_of_a_run_and_the_box_says_whether_the_base_is_sent(tmp_path):
    folder = tiny_chain(tmp_path / "runs", ranks={"sft": 4, "dpo": 4})
    below = (folder / read_chain(folder).manifest.stages[0].path).resolve().parent
    for place, repo in ((below, "you/tiny-sft"), (folder, "you/tiny")):
        told = {"kind": "adapter", "endpoint": "https://hub", "revision": "0" * 40, "tag": None, "pull_request": None}
        told |= {"visibility": "private", "outcome": "published", "files": {}, "finished_at": now(), "repo": repo}
        client.write_receipt(client.Receipt.model_validate(told), place)
    assert {each.repo for each in receipts_of(folder)} == {"you/tiny-sft", "you/tiny"}
    assert base_of(EMBEDDED_RUNS / "grpo"), "of the embedded chain the base is sent, so the box is ticked"


def test_without_a_token_the_page_says_how_to_log_in_and_offers_no_publishing(run, local_hub, monkeypatch):
    monkeypatch.setattr(client, "HfApi", partial(HfApi, client.HfApi.args[0], None))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere/token")
    seen = preview_upload(Order(str(run), "you/tiny", with_base=True))
    assert seen.needs_token
    assert "hf auth login" in plain(shown_plan(seen))


def test_a_card_shows_no_image_from_elsewhere_and_its_front_matter_apart():
    card = "---\nlicense: mit\n---\n# A\n![x](https://evil.example/x.png) text ![y](plot.png)"
    front, words = shown_card(PublicationPreview((), card))
    assert "evil" not in front + words
    assert "license: mit" in front
    assert words == "<h1>A</h1>\n<p>text</p>\n"
    assert (
        "<summary>For <code>x</code></summary>"
        in shown_card(PublicationPreview((), "<summary>For <code>x</code></summary>"))[1]
    )
    assert shown_card(PublicationPreview((), "", problem="x")) == ("", "")


def test_what_was_planned_is_sent_and_only_that_and_the_fold_shows_that_it_goes_on(tmp_path):
    folder = tiny_chain(tmp_path / "runs", ranks={"sft": 4})
    RunFolder(folder).write(record("sft", stage="sft", status="finished"))
    services = services_in(tmp_path)
    known = replace(services.settings.training, runs=(tmp_path / "runs",))
    services = replace(services, settings=replace(services.settings, training=known))
    with gr.Blocks() as page:
        fold = Publishing(services, gr.State(None))
    (name,) = chains_of_runs(services)
    view = SimpleNamespace(name=name, watched=SimpleNamespace(run=folder))
    asked = ("you/tiny", "v1.0", "mit", "", True, False)
    shown = fold.on_go(SimpleNamespace(username=""), fold.order(view, *asked), view, *asked)
    (sent,) = (each for each in page.fns.values() if each.api_name == "publish_start")
    assert "you/tiny" in shown[fold.line]
    assert shown.keys() <= {*sent.outputs}
    services.jobs.cancel(services.jobs.all()[0].id)
    over = fold.looked(view)
    assert over[fold.line] == "", "it is not said to go on once it is over"
    assert "you/tiny" in over[fold.work]
    (looked,) = (each for each in page.fns.values() if each.api_name == "publish_look")
    assert over.keys() <= {*looked.outputs}
    with pytest.raises(LabError, match="changed"):
        fold.on_go(SimpleNamespace(username=""), None, view, *asked)
