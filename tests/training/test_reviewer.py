"""Papers through a chain or a server: what is asked, held, merged, what may fail; many papers into one file; fine-tuning."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from evals.errors import BadConfig, BadRow, ChainMismatch, LabError
from evals.io import read_rows
from evals.review.prompt import (
    PROMPT_VERSION,
    Budget,
    prompt_sha256,
    request,
    review_conversation,
    review_system_prompt,
)
from evals.schema import Article, Section
from evals.schema.articles import EngineRecord, ReviewedRow
from evals.schema.reviews import Concern, PredictionRow, RawRow
from tests.models import tiny_base, tiny_tokenizer
from tests.training.cases import cases
from tests.training.judge_server import Asked, JudgeServer, Reply
from tests.training.reviewers import CONTEXT, paper, review_article, reviewer_chain
from tests.training.runs import COMMON, record, settings_file, train
from training.data.reviews import check_chain_prompt, check_replies, read_reviews
from training.judge import client
from training.judge.client import Reply as Answer
from training.models.chain import load_chain
from training.reviewer.engine import (
    Asking,
    ChainEngine,
    EstimatedTokens,
    Room,
    ServerEngine,
    ServerSettings,
    merge_parts,
    requests_for,
    row_of,
    stream_review,
)
from training.reviewer.infer import Clocks, ReviewFile, ReviewPlan, infer

ASKING = Asking(max_new_tokens=64, temperature=1.0, seed=2)
PARAGRAPH = "Group {} of the mice was treated with the drug."


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ChainEngine:
    run = reviewer_chain(tmp_path_factory.mktemp("reviewer"))
    return ChainEngine(load_chain(run, "float32", base=str(run.parent / "model")), ASKING)


def concern(text: str, severity: str = "major") -> Concern:
    return Concern(text=text, category="other", severity=severity)


def long_paper(paragraphs: int) -> Article:
    return paper("long", " ".join(PARAGRAPH.format(n) for n in range(paragraphs)))


def test_a_paper_becomes_a_row_that_says_who_answered_and_a_streamed_review_ends_with_the_same(engine: ChainEngine):
    row = review_article(paper("mice"), engine, ASKING)
    assert row.article_id == "demo:mice"
    assert row.raw_output.startswith('[{"text": "') or row.raw_output == "[]"
    assert (row.finish_reason, row.parts[0].tokens_written) == ("length", 64)
    assert row.status in {"partial", "failed"}
    assert row.parts[0].tokens_read > 500
    record = engine.record()
    assert (record.stage, record.constraint, set(record.checksums)) == ("review", "array schema", {"base", "review"})
    first, *_, last = stream_review(paper("mice"), engine, ASKING, threading.Event(), time.monotonic)
    assert first.concerns == ()
    assert (last.row.raw_output, last.row.concerns, last.n_tokens) == (row.raw_output, row.concerns, 64)
    assert last.requests == requests_for(paper("mice"), engine.room, ASKING.budget(engine.room.context)).requests


def test_a_stopped_review_keeps_what_was_written_and_says_which_parts_were_not_read(engine):
    stop = threading.Event()
    steps = stream_review(long_paper(200), engine, replace(ASKING, context=2700), stop, time.monotonic)
    assert next(steps).parts > 1
    stop.set()
    *_, last = steps
    assert last.row.finish_reason == "cancelled"
    assert "stopped before this part" in last.row.parts[-1].error


def test_an_adapter_trained_with_other_instructions_is_not_asked_and_a_bare_base_is_given_them(engine, tmp_path):
    run = reviewer_chain(tmp_path, prompt="Review this.")
    with pytest.raises(ChainMismatch, match="trained with other review instructions"):
        ChainEngine(load_chain(run, "float32", base=str(tmp_path / "model")), ASKING)
    bare = load_chain(f"base:{tiny_base(tmp_path / 'bare', context=4096)}", "float32")
    assert bare.manifest.system_prompt != review_system_prompt()
    assert ChainEngine(bare, ASKING).record().prompt_sha256 == engine.record().prompt_sha256
    assert ChainEngine(bare, ASKING).answer(["Review."])[0].tokens_read > 500


def test_a_long_paper_is_asked_about_in_parts_that_each_fit(engine: ChainEngine):
    asked = requests_for(long_paper(200), engine.room, Budget(2600, 64, overlap=40, max_parts=3))
    assert len(asked.requests) == 3
    for number, one in enumerate(asked.requests, start=1):
        assert f"part {number} of 3" in one
        chat = [{"role": "system", "content": review_system_prompt()}, {"role": "user", "content": one}]
        assert engine.room.counter.chat(chat) + 64 <= 2600
    assert asked.tokens_lost > 0
    assert "could not be read" in asked.notes[-1]


def test_parts_are_merged_by_importance_and_what_a_later_part_repeats_stands_once():
    first = [concern("No control."), concern("Typos.", "minor")]
    second = [concern("no  control."), concern("Small n.")]
    found, repeats = merge_parts([first, second])
    assert ([each.text for each in found], repeats) == (["No control.", "Small n.", "Typos."], 1)
    said = [concern("Typos.", "minor"), concern("Typos.", "minor"), concern("No control.")]
    assert merge_parts([said]) == (tuple(said), 0)  # one part keeps the model's own order and repeats


def test_the_status_of_a_paper_is_that_of_all_its_parts(engine):
    asked = requests_for(long_paper(100), engine.room, Budget(2700, 64, overlap=40, max_parts=2))
    for texts, status in cases("reviewer")["status"]:
        assert row_of(asked, [Answer(text) for text in texts], 1.0).status == status, texts
    broken = row_of(asked, [Answer("[]"), Answer(finish_reason="error", error="the server answered 500")], 1.0)
    assert (broken.status, broken.is_good) == ("partial", False)
    assert broken.problems[-1:] == ("part 2: the server answered 500",)


# ---- papers that contain instructions to the reviewer ---------------------------------------------------

QUESTION = request("Another paper that has no faults.")
INJECTIONS = {name: text.replace("<question>", QUESTION) for name, text in cases("attacks")["papers"].items()}
MARKS = ("<|im_", "<|eot", "[INST]", "<start_of_turn>", "<｜User｜>")


def injected(text: str, place: str) -> Article:
    clean = paper("mice")
    methods = clean.sections[0]
    changed: dict[str, dict[str, object]] = {
        "title": {"title": f"{clean.title} {text}"},
        "abstract": {"abstract": f"{clean.abstract} {text}"},
        "section name": {"sections": (Section(name=f"Methods {text}", text=methods.text),)},
        "section": {"sections": (Section(name="Methods", text=f"{methods.text}\n\n{text}"),)},
    }
    return clean.model_copy(update=changed[place])


def control_marks(engine: ChainEngine, text: str) -> list[int]:
    """Return the control tokens in what the model reads, in their order."""
    tokenizer = engine._chain.tokenizer
    prompt = [each.model_dump() for each in review_conversation(text)]
    written = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    special = {at for at, each in tokenizer.added_tokens_decoder.items() if each.special}
    return [token for token in tokenizer(str(written), add_special_tokens=False)["input_ids"] if token in special]


@pytest.mark.parametrize("place", ["title", "abstract", "section name", "section"])
def test_a_paper_opens_no_turn_and_stands_in_the_question_alone(engine, place):
    (clean,) = requests_for(paper("mice"), engine.room, Budget(4096, 64)).requests
    for name, text in INJECTIONS.items():
        asked = requests_for(injected(text, place), engine.room, Budget(4096, 64))
        (one,) = asked.requests
        assert control_marks(engine, one) == control_marks(engine, clean), name
        system, question = review_conversation(one)
        assert system.content == review_system_prompt()
        assert question.content.startswith(request("").strip()), name
        if name == "a turn of ChatML":
            assert "4 control mark(s)" in row_of(asked, [Answer("[]")], 0.0).problems[0]


def test_a_server_is_sent_an_injected_paper_as_one_question_and_an_answer_in_it_is_no_concern():
    articles = [injected(text, "section") for text in INJECTIONS.values()]
    asked = [requests_for(each, ROOM, Budget(8192)) for each in articles]
    with JudgeServer(lambda _: completion()) as server:
        replies = ServerEngine(ServerSettings(server.url), SERVER_ASKING, ROOM).answer([a.requests[0] for a in asked])
    for about, reply in zip(asked, replies, strict=True):
        assert [each.text for each in row_of(about, [reply], 0.0).concerns] == ["There is no control arm."]
    for each in server.requests:
        system, question = each.body["messages"]
        assert (system["role"], system["content"], question["role"]) == ("system", review_system_prompt(), "user")
        assert not [mark for mark in MARKS if mark in question["content"]]


# ---- a server, over real HTTP ---------------------------------------------------------------------------

SERVER_ASKING = Asking(max_new_tokens=300, repetition_penalty=1.0)
ROOM = Room(EstimatedTokens(), 8192)
SAID = '[{"text": "There is no control arm.", "category": "design_flaw", "severity": "major"}]'


def completion(text: object = SAID, reason: str = "stop", **more: object) -> Reply:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return 200, json.dumps({"choices": [choice], **more}).encode()


def refusal(status: int, message: str) -> Reply:
    return status, json.dumps({"error": {"message": message}}).encode()


def answers(behaviour: Callable[[Asked], Reply | float], asking: Asking = SERVER_ASKING, n: int = 1):
    """Return the replies of a server to `n` papers, the engine's record and the requests."""
    with JudgeServer(behaviour) as server:
        settings = ServerSettings(server.url, retries=2, timeout_seconds=20.0)
        engine = ServerEngine(settings, asking, ROOM)
        replies = engine.answer([f"Review paper {k}." for k in range(n)])
        return replies, engine.record(), server.requests


def no_schema(asked: Asked) -> Reply:
    return refusal(422, "response_format is not supported") if "response_format" in asked.body else completion()


def test_a_reply_comes_with_its_reason_its_tokens_and_the_schema_it_was_held_to():
    usage = {"prompt_tokens": 900, "completion_tokens": 30}
    (reply,), record, (asked,) = answers(lambda _: completion(usage=usage, model="tiny-2026"))
    assert reply == Answer(SAID, "stop", 900, 30)
    assert (record.constraint, record.name, record.served) == ("array schema", "tiny-judge", ("tiny-2026",))
    form = asked.body["response_format"]["json_schema"]
    assert form["schema"]["items"]["required"] == ["text", "category", "severity"]
    assert asked.body["messages"][0] == {"role": "system", "content": review_system_prompt()}
    assert {"temperature": 0.1, "top_p": 0.9, "seed": 0, "max_tokens": 300}.items() <= asked.body.items()


def test_a_server_that_takes_only_objects_is_asked_for_one_and_the_record_says_so():
    def only_objects(asked: Asked) -> Reply:
        if asked.body["response_format"]["json_schema"]["schema"]["type"] == "array":
            return refusal(400, "Invalid schema for response_format: must be of type object")
        return completion(f'{{"concerns": {SAID}}}')

    (reply,), record, requests = answers(only_objects)
    assert (len(requests), record.constraint) == (2, "object schema")
    assert "must be of type object" in record.substitutions[0]
    row = row_of(requests_for(paper("p"), ROOM, Budget(8192, 300)), [reply], 0.0)
    assert [each.text for each in row.concerns] == ["There is no control arm."]


def test_a_server_that_knows_no_schema_is_asked_freely_unless_constrain_is_always():
    replies, record, _ = answers(no_schema, n=3)
    assert [reply.error for reply in replies] == ["", "", ""]
    assert (record.constraint, len(record.substitutions)) == ("none", 2)
    with pytest.raises(LabError, match="constrain is always"):
        answers(no_schema, replace(SERVER_ASKING, constrain="always"))
    _, record, (asked,) = answers(lambda _: completion(), replace(SERVER_ASKING, constrain="never"))
    assert "response_format" not in asked.body
    assert (record.constraint, record.substitutions) == ("none", ())


def test_a_reply_that_ran_out_of_tokens_says_length_even_where_it_only_thought():
    (reply,), *_ = answers(lambda _: completion(SAID[:40], "length"))
    assert reply.finish_reason == "length"
    message = {"content": None, "reasoning_content": "Hmm"}
    thought = json.dumps({"choices": [{"message": message, "finish_reason": "length"}]}).encode()
    (reply,), *_ = answers(lambda _: (200, thought))
    assert (reply.text, reply.finish_reason) == ("<think>Hmm", "length")


def test_an_error_or_a_filter_in_a_reply_with_status_200_is_named_and_asked_again_where_that_can_help():
    """Errors as OpenRouter, vLLM and Azure send them; three requests are all tries, one form is asked for."""
    about, rows = requests_for(paper("p"), ROOM, Budget(8192, 300)), {}
    table = cases("reviewer")["errors"]
    for name, (status, document, said, reason, n) in table.items():
        sent = status, json.dumps(document).encode()
        (reply,), _, requests = answers(lambda _, sent=sent: sent, replace(SERVER_ASKING, constrain="never"))
        assert said in reply.error and (bool(reply.error), reply.finish_reason) == (bool(said), reason), name
        assert len(requests) == n, name
        rows[name] = row_of(about, [reply], 0.0)
    assert rows["cut off"].status == "partial" and "content filter cut the reply off" in rows["cut off"].problems[-1]
    assert {rows[name].status for name, (_, _, said, *_) in table.items() if said} == {"failed"}
    (refused,), *_ = answers(
        lambda _: (200, b'{"choices": [{"message": {"content": null, "refusal": "I cannot help."}}]}')
    )
    assert (refused.text, row_of(about, [refused], 0.0).status) == ("I cannot help.", "failed")


def test_a_reply_of_any_length_is_bounded_and_what_is_left_out_is_told(monkeypatch):
    """Half a surrogate pair, as servers cut emoji, stands in no row: neither as a character nor as an escape in the list."""
    many = [{"text": f"Lot {n} is not described.", "category": "other", "severity": "minor"} for n in range(60)]
    lone = r'[{"text": "A \ud83d in the text here", "category": "other", "severity": "minor"}]'
    listed = json.dumps(many)
    table: dict[str, tuple[str, int, str]] = {
        listed: ("partial", 25, "60 concerns, and 25 are allowed"),
        lone: ("ok", 1, ""),
        lone.replace(r"\ud83d", "\ud83d"): ("ok", 1, ""),
    }
    about = requests_for(paper("p"), ROOM, Budget(8192, 300))
    for text, (status, n, problem) in table.items():
        (reply,), *_ = answers(lambda _, text=text: completion(text))
        row = row_of(about, [reply], 0.0)
        assert (row.status, len(row.concerns)) == (status, n) and problem in " ".join(row.problems)
        assert row.model_dump_json()
    monkeypatch.setattr(client, "MOST_CHARACTERS", 500)
    (reply,), *_ = answers(lambda _: completion(listed))
    row = row_of(about, [reply], 0.0)
    assert (row.status, row.finish_reason) == ("partial", "too long") and "cut off after" in row.problems[-1]
    monkeypatch.setattr(client, "MOST_BYTES", 1_000)
    (reply,), _, requests = answers(lambda _: completion(listed))
    assert (reply.error, len(requests)) == ("the reply is longer than 0 MB", 1)


def test_a_server_of_several_models_is_asked_for_none_of_them():
    with JudgeServer(models=("one", "two")) as server, pytest.raises(BadConfig, match="one, two"):
        ServerEngine(ServerSettings(server.url), ASKING, ROOM)


# ---- many papers into one file: interrupted, gone on with, one row per paper -------------------------


SCRIPTED_ASKING = Asking(max_new_tokens=300)
PAPERS = [paper(name) for name in ("a", "b", "c", "d", "e")]


class Scripted:
    """An engine that says one concern about each paper, or what `say` makes of the request."""

    def __init__(self, say: Callable[[str], Answer] | None = None, name: str = "scripted") -> None:
        self.room = Room(EstimatedTokens(), 8192)
        self.name, self.say = name, say
        self.batches: list[int] = []

    def record(self) -> EngineRecord:
        return EngineRecord(kind="server", name=self.name, tokenizer="t", constraint="none", prompt_sha256="p")

    def answer(self, requests: Sequence[str], told: Callable[[int], None] | None = None) -> list[Answer]:
        self.batches.append(len(requests))
        if told:
            told(20)
        return [self.say(each) if self.say else said(each) for each in requests]


def said(request: str) -> Answer:
    title = next(line for line in request.splitlines() if line.startswith("# "))
    concern = {"text": f"No control in {title[2:]}.", "category": "design_flaw", "severity": "major"}
    return Answer(json.dumps([concern]), "stop", 900, 30)


def run(out: Path, engine: Scripted, papers: Sequence[Article] = PAPERS, **more):
    seconds = count()
    clocks = Clocks(lambda: float(next(seconds)), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    job = ReviewPlan(papers, engine, more.pop("asking", SCRIPTED_ASKING), more.pop("batch", 2))
    seen: list[tuple[int, int]] = []
    done = infer(job, ReviewFile(out), clocks, lambda at, of, _: seen.append((at, of)), **more)
    return done, seen


def rows(out: Path) -> list[ReviewedRow]:
    return read_rows(out, ReviewedRow, key=lambda row: row.article_id)


def breaking_at(letter: str) -> Callable[[str], Answer]:
    def say(request: str) -> Answer:
        if f"about {letter}" in request:
            raise KeyboardInterrupt
        return said(request)

    return say


def test_every_paper_has_one_row_in_order_with_progress_and_seconds(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    engine = Scripted()
    done, seen = run(out, engine)
    assert [row.article_id for row in rows(out)] == [each.id for each in PAPERS]
    assert engine.batches == [2, 2, 1]
    assert seen == [(n, 5) for n in range(6)]
    assert (done.status, done.articles, done.by_status) == ("finished", 5, {"ok": 5})
    assert done.seconds_per_article.median > 0
    assert [row.seconds for row in rows(out)] == [0.5, 0.5, 0.5, 0.5, 1.0]
    assert read_rows(out, RawRow)[0].raw.startswith("[{")  # rows can be parsed again and scored as they are
    assert read_rows(out, PredictionRow)[0].concerns[0].text == "No control in A paper about a."


def test_an_interrupted_run_leaves_its_rows_and_goes_on_to_what_a_whole_one_gives(tmp_path: Path):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    run(whole, Scripted())
    with pytest.raises(KeyboardInterrupt):
        run(out, Scripted(breaking_at("d")))
    assert [row.article_id for row in rows(out)] == ["demo:a", "demo:b"]
    engine = Scripted()
    done, seen = run(out, engine)
    assert sum(engine.batches) == 3
    assert seen[0] == (2, 5)
    assert done.reviewed_before == 2
    parts, one_go = ([row.model_dump(exclude={"seconds"}) for row in rows(each)] for each in (out, whole))
    assert parts == one_go
    assert not out.with_name("parts.jsonl.journal").exists()


def test_a_killed_run_loses_no_row_even_where_the_last_line_was_cut(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    run(out, Scripted(), PAPERS[:2])
    text = out.read_text()
    out.unlink()
    journal = out.with_name("p.jsonl.journal")
    journal.write_text(text + text[:100])  # killed: rows in the journal, one of them torn
    engine = Scripted()
    run(out, engine)
    assert sum(engine.batches) == 3
    assert len(rows(out)) == 5


def failing(request: str) -> Answer:
    return Answer(finish_reason="error", error="the server answered 500") if "about b" in request else said(request)


def test_a_failed_paper_is_asked_about_again_and_the_good_row_is_the_one_that_stands(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    done, _ = run(out, Scripted(failing))
    assert done.by_status == {"ok": 4, "failed": 1}
    assert rows(out)[1].problems == ("the server answered 500",)
    engine = Scripted()
    again, _ = run(out, engine)
    assert (sum(engine.batches), again.by_status) == (1, {"ok": 5})
    file, good = ReviewFile(out), rows(out)[0]
    file.add([good, good.model_copy(update={"status": "failed"})])
    assert file.rows["demo:a"].status == "ok"


def test_only_a_paper_whose_text_changed_is_reviewed_again_whatever_the_batch(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    run(out, Scripted())
    engine = Scripted()
    run(out, engine, [paper("a", "Another text."), *PAPERS[1:]], batch=5)
    assert engine.batches == [1]


@pytest.mark.parametrize(
    ("engine", "asking", "said"),
    [
        (Scripted(name="other"), SCRIPTED_ASKING, "name 'scripted', now 'other'"),
        (Scripted(), Asking(max_new_tokens=300, seed=7), "seed 0, now 7"),
    ],
)
def test_rows_of_another_model_or_setting_are_not_mixed_in(tmp_path, engine, asking, said):
    out = tmp_path / "p.jsonl"
    run(out, Scripted())
    with pytest.raises(BadConfig, match=rf"{said}.* delete p\.jsonl and p\.jsonl\.journal"):
        run(out, engine, asking=asking)
    out.unlink()
    done, _ = run(out, engine, asking=asking)
    assert done.reviewed_before == 0


def test_a_file_that_this_command_did_not_write_is_left_alone(tmp_path: Path):
    out = tmp_path / "p.jsonl"
    out.write_text("{}\n")
    with pytest.raises(BadConfig, match="no record of it beside them"):
        run(out, Scripted())
    assert out.read_text() == "{}\n"


# ---- fine-tuning on the tiny model -------------------------------------------------------------------


REPLY = '[{"text": "There is no control.", "category": "design_flaw", "severity": "major"}]'


def chat(name: str, prompt: str | None = None, reply: str = REPLY, key: str = "from") -> dict:
    """Return a ShareGPT row, or one of messages where `key` is role."""
    said = (prompt or review_system_prompt(), f"Review the paper {name}.", reply)
    if key == "from":
        turns = [{"from": who, "value": text} for who, text in zip(("system", "human", "gpt"), said, strict=True)]
        return {"id": name, "article_id": name, "source": "demo", "conversations": turns}
    roles = zip(("system", "user", "assistant"), said, strict=True)
    return {"id": name, "messages": [{"role": who, "content": text} for who, text in roles]}


def chat_rows(folder: Path, *documents: dict) -> str:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
    return str(file)


def review_settings(folder: Path, **values: object) -> Path:
    """Write the settings file of a reviewer that learns from four papers."""
    tiny_base(folder / "model", context=CONTEXT)
    chat_rows(folder, *(chat(f"demo:{n}") for n in range(4)))
    return settings_file(folder, {**COMMON, "batch": 2, "max_length": CONTEXT, **values})


def test_a_run_leaves_a_reviewer_that_carries_its_instructions_and_reviews(tmp_path: Path):
    run = train("review", review_settings(tmp_path)).path
    chain = json.loads((run / "chain.json").read_text(encoding="utf-8"))
    assert chain["system_prompt"] == review_system_prompt()
    assert [(stage["name"], stage["kind"]) for stage in chain["stages"]] == [("review", "review")]
    kept = record(run)
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", "review", 2)
    data = {"prompt_version": PROMPT_VERSION, "prompt_sha256": prompt_sha256(), "rows": 4, "rows of rows.jsonl": 4}
    assert data.items() <= kept["data"].items()
    asking = Asking(max_new_tokens=32)
    engine = ChainEngine(load_chain(run, "float32", base=str(tmp_path / "model")), asking)
    row = review_article(paper("mice"), engine, asking)
    assert row.parts[0].tokens_read > 1000 and not row.parts[0].error


def test_rows_of_both_forms_are_read_and_a_repeated_one_is_counted(tmp_path: Path):
    data = read_reviews([chat_rows(tmp_path, chat("a"), chat("b", key="role"), chat("a"))])
    assert [row.name for row in data.items] == ["a", "b"]
    assert data.left_out == {"the same row again": 1}
    assert data.items[0].reply == data.items[1].reply == REPLY


def test_rows_that_cannot_be_learned_from_are_refused(tmp_path):
    short = {"id": "a", "conversations": chat("a")["conversations"][1:]}
    refused = (
        ([chat("a"), chat("b", prompt="Be kind.")], BadConfig, "different system prompts"),
        ([chat("a"), chat("a", reply="[]")], BadConfig, "two different rows are called 'a'"),
        ([chat("a", reply=" ")], BadRow, "conversations.2.value.: is empty"),
        ([short], BadRow, "they have to be system, user, assistant"),
    )
    for documents, error, said in refused:
        with pytest.raises(error, match=said):
            read_reviews([chat_rows(tmp_path, *documents)])
    with pytest.raises(LabError, match="assay data review --corpus a"):
        read_reviews([str(tmp_path / "none.jsonl")])


def test_a_template_that_hides_the_reply_is_refused_rather_than_trained_on_whole(tmp_path):
    data = read_reviews([chat_rows(tmp_path, chat("a"))])
    tokenizer = tiny_tokenizer()
    check_replies(data, tokenizer, "tiny")
    for template in cases("reviewer")["hiding templates"]:
        tokenizer.chat_template = template
        with pytest.raises(BadConfig, match="Training on the whole text is refused"):
            check_replies(data, tokenizer, "tiny")


def test_a_chain_that_was_trained_with_other_instructions_is_not_gone_on_with(tmp_path: Path):
    data = read_reviews([chat_rows(tmp_path, chat("a"))])
    check_chain_prompt(data, None)
    check_chain_prompt(data, review_system_prompt())
    with pytest.raises(ChainMismatch, match="another system prompt"):
        check_chain_prompt(data, "Answer in one sentence.")


def test_one_paper_that_fails_leaves_the_others_of_its_batch_alone():
    def some(asked: Asked) -> Reply:
        return (500, b"no") if "paper 1" in asked.text else completion()

    replies, *_ = answers(some, n=3)
    assert [bool(reply.error) for reply in replies] == [False, True, False]
