"""A review in stages: a summary, concerns section by section, one list, and what the paper contradicts taken out.

Every stage is asked of the same model, behind a server or of a chain, under the instructions and in the form of a
review in one go; the words are data (`evals/review/staged.toml`). A stage that cannot be read is named in the
problems of the review, and nothing that another stage found is lost by it.
"""

import hashlib
import json
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from textwrap import shorten

from evals.papers import read_article
from evals.papers.places import Map
from evals.review.parse import answer_of, none_in
from evals.review.prompt import MOST, prompt_sha256, review_conversation
from evals.schema import Message
from evals.schema.articles import DroppedConcern, EngineRecord, PartReply
from evals.schema.reviews import Concern, ParsedReview, ParseStatus
from training.judge.client import Reply
from training.judge.guidelines import STATUSES, contradicting, grounding_messages, read_verdicts, verdict_schema
from training.judge.prompts import Fences
from training.reviewer.engine import (
    FREE,
    Conversation,
    OnTokens,
    Replies,
    ReplyForm,
    ReviewEngine,
    StagedReply,
    Watch,
    merge_parts,
    part_of,
    read_reply,
)

SHORT = 12
"""Words of a section that is reviewed together with its neighbour."""
SUMMARY_CHARACTERS = 4_000
TOKENS_OF_A_VERDICT = 80
MERGED = 15
"""Concerns of the one list that is asked for."""
VERDICTS = ReplyForm("verdicts", verdict_schema(STATUSES)["schema"])
NOTE = "asked in stages: a summary, concerns by section, one list, and what the paper contradicts taken out"


class StagedEngine(ReviewEngine):
    """Reviews each part of a paper in stages, all asked of `engine`, so many sections at once; errors are its own."""

    def __init__(self, engine: ReviewEngine, at_once: int = 4) -> None:
        self._engine, self._at_once = engine, at_once
        self.room, self.asking = engine.room, engine.asking
        super().__init__()

    @property
    def replies(self) -> Replies:
        """Those of the engine that is asked."""
        return self._engine.replies

    @replies.setter
    def replies(self, replies: Replies) -> None:
        self._engine.replies = replies

    def record(self) -> EngineRecord:
        """Return who answers, with the checksum of the words of all stages."""
        known = self._engine.record()
        words = f"{prompt_sha256()}\n{json.dumps(words_of(), sort_keys=True)}"
        sha256 = hashlib.sha256(words.encode()).hexdigest()
        return known.model_copy(update={"prompt_sha256": sha256, "substitutions": (*known.substitutions, NOTE)})

    def reply_to(self, conversations: Sequence[Conversation], form: ReplyForm, watch: Watch) -> list[Reply]:
        """Return one reply per conversation, as the engine that is asked gives it."""
        return self._engine.reply_to(conversations, form, watch)

    def answer(self, requests: Sequence[str], on_tokens: OnTokens | None = None) -> list[Reply]:
        """Return one reply per request, each the verified list as JSON; one whose stages fail has their error."""
        return [list(self._review_in_stages(each, None))[-1] for each in requests]

    def stream(self, request: str, stop: threading.Event) -> Iterator[Reply]:
        """Yield the concerns so far after every stage, and the whole review at last."""
        yield from self._review_in_stages(request, stop)

    def _review_in_stages(self, request: str, stop: threading.Event | None) -> Iterator[StagedReply]:
        paper, words = request.partition("\n\n")[2], words_of()
        stages: list[PartReply] = []
        problems: list[str] = []
        found: tuple[Concern, ...] = ()
        dropped: list[DroppedConcern] = []
        statuses: list[ParseStatus] = []
        unread: list[str] = []

        def reply(stage: str = "") -> StagedReply:
            """Return what is known so far, the last word where no stage follows."""
            status: ParseStatus = "ok" if found or dropped else "empty"
            if not set(statuses) - {"failed"}:
                status = "failed"
            elif set(statuses) & {"failed", "partial"}:
                status = "partial"
            errors = [each.error for each in stages]
            reasons = [each.finish_reason for each in stages if each.finish_reason not in ("stop", "unknown")]
            reason = "error" if "error" in reasons else next(iter(reasons), "stop")
            return StagedReply(
                "\n".join(unread) if status == "failed" and not stage else concerns_json(found),
                "unfinished" if stage else reason,
                sum(each.tokens_read or 0 for each in stages),
                sum(each.tokens_written or 0 for each in stages),
                next(filter(None, errors), "") if all(errors) else "",
                ParsedReview(id="", status=status, concerns=found, problems=tuple(problems)),
                tuple(dropped),
                tuple(stages),
                stage,
            )

        def is_stopped() -> bool:
            return stop is not None and stop.is_set()

        yield reply("summary")
        asked, _ = self._fit(partial(_summary_asked, words), paper)
        (answer,) = self.ask([asked], FREE, _is_text, stop=stop)
        summary, stage = _summary(answer)
        stages.append(stage)
        if answer.error:
            yield reply()
            return
        if not summary:
            problems.append("summary: there is none that could be used; the sections were read without it")

        sections = sections_in(paper)
        lists: list[tuple[Concern, ...]] = []
        for at in range(0, len(sections), self._at_once):
            group = sections[at : at + self._at_once]
            names = [name for name, _ in group]
            if is_stopped():
                break
            yield reply(f"{', '.join(names)} ({at + len(group)} of {len(sections)})")
            questions = []
            for name, text in group:
                asked, lost = self._fit(partial(_section_asked, words, summary), text)
                questions.append(asked)
                if lost:
                    problems.append(f"section {name}: {lost} tokens of it could not be read")
            for name, answer in zip(names, self.ask(questions, stop=stop), strict=True):
                read = read_reply(answer)
                stages.append(part_of(answer, read, name))
                statuses.append("failed" if answer.error else read.status)
                problems += [f"section {name}: {each}" for each in ((answer.error,) if answer.error else read.problems)]
                if read.status == "failed" and answer.text:
                    problems.append(f"section {name}: it was answered with {shorten(answer.text, 100)!r}")
                    unread.append(answer.text)
                lists.append(read.concerns)
            found, _ = merge_parts(lists)
        if is_stopped():
            problems.append(
                f"the review was stopped after {len(lists)} of {len(sections)} sections; it is not verified"
            )
            stages.append(PartReply(part=1, name="stop", status="failed", finish_reason="cancelled", n_concerns=0))
            statuses.append("failed")
            yield reply()
            return

        if len(lists) > 1 and found:
            yield reply("one list")
            asked = review_conversation(
                words["merge"].format(summary=summary, concerns=concerns_json(found), most=MERGED)
            )
            if self._room_beside(asked) < 0:
                problems.append("the lists of the sections stand side by side: together they are too long to be merged")
            else:
                (answer,) = self.ask([asked], stop=stop)
                read = read_reply(answer)
                stages.append(part_of(answer, read, "one list"))
                if read.status == "ok" and not answer.error:
                    found = read.concerns
                else:
                    why = answer.error or "; ".join(read.problems[:3]) or "it is empty"
                    problems.append(f"the lists of the sections stand side by side: the merged one is no use ({why})")

        if found and is_stopped():
            problems.append(f"{len(found)} concern(s) not verified: the review was stopped")
        elif found:
            yield reply("verification")
            found, dropped = self._verify(found, paper, stages, problems, stop)
        yield reply()

    def _verify(
        self,
        found: Sequence[Concern],
        paper: str,
        stages: list[PartReply],
        problems: list[str],
        stop: threading.Event | None,
    ) -> tuple[tuple[Concern, ...], list[DroppedConcern]]:
        """Return the concerns that stand and those that the paper contradicts; what was not verified is a problem."""
        n = max(1, min(MOST, self.asking.max_new_tokens // TOKENS_OF_A_VERDICT))
        fences = Fences(hashlib.sha256(paper.encode()).digest())  # the same in every run, so replies are known again
        places, by = Map(read_article(paper.encode(), "paper.md")), self._engine.record().name
        kept: list[Concern] = []
        dropped: list[DroppedConcern] = []
        unverified, unfounded, why = 0, 0, ""
        for group in (found[start : start + n] for start in range(0, len(found), n)):
            texts = [each.text for each in group]
            asked, _ = self._fit(partial(_verdicts_asked, fences, texts), paper)
            (answer,) = self.ask([asked], VERDICTS, partial(_is_complete, len(group)), stop=stop)
            verdicts = read_verdicts(answer.text, len(group), STATUSES)
            status: ParseStatus = "ok" if len(verdicts) == len(group) else "partial" if verdicts else "failed"
            stage = part_of(answer, ParsedReview(id="", status=status, concerns=()), "verification")
            stages.append(stage)
            for number, concern in enumerate(group, start=1):
                word, quote = verdicts.get(number, ("", ""))
                place = contradicting(concern.text, quote, places) if word == "contradicted" else None
                if place is not None:
                    dropped.append(DroppedConcern(**concern.model_dump(), sentence=place.quote, by=by))
                    continue
                kept.append(concern)
                unverified += not word
                unfounded += word == "contradicted"
            if len(verdicts) < len(group):
                why = answer.error or "the reply has no verdict on them"
        if unverified:
            problems.append(f"{unverified} concern(s) not verified: {why}")
        if unfounded:
            problems.append(
                f"{unfounded} concern(s) not verified: called contradicted without a sentence of the paper about the same"
            )
        return tuple(kept), dropped

    def _fit(self, asked: Callable[[str], Conversation], text: str) -> tuple[Conversation, int]:
        """Return what is asked about a text, its end left out where there is no room, and the tokens left out."""
        room = max(0, self._room_beside(asked("")))
        ends = self.room.counter.ends(text)
        if len(ends) <= room:
            return asked(text), 0
        return asked(text[: ends[room - 1]] if room else ""), len(ends) - room

    def _room_beside(self, asked: Conversation) -> int:
        """Return the tokens that are left beside a conversation and its reply."""
        budget = self.asking.budget(self.room.context)
        used = self.room.counter.chat([each.model_dump() for each in asked])
        return budget.context - budget.reply_reserve - used


def sections_in(paper: str) -> list[tuple[str, str]]:
    """Return names and texts of a paper's sections, short ones together with their neighbour; the whole without any."""
    head, *parts = paper.split("\n\n## ")
    found: list[list[str]] = []
    for each in parts:
        if found and (len(each.split()) <= SHORT or len(" ".join(found[-1]).split()) <= SHORT):
            found[-1].append(each)
        else:
            found.append([each])
    if not found:
        return [("the whole text", head)]
    return [
        (", ".join(each.partition("\n")[0] for each in group), "\n\n".join(f"## {each}" for each in group))
        for group in found
    ]


def _summary(answer: Reply) -> tuple[str, PartReply]:
    """Return the summary in a reply, empty where it is a refusal, and what is kept of the reply."""
    text = answer_of(answer.text)[0] if answer.text else ""
    summary = "" if none_in(text) == "is a refusal" else text[:SUMMARY_CHARACTERS]
    read = ParsedReview(id="", status="ok" if summary else "failed", concerns=())
    return summary, part_of(answer, read, "summary")


def _summary_asked(words: dict[str, str], paper: str) -> Conversation:
    system = Message(role="system", content=words["summary_system"])
    return (system, Message(role="user", content=words["summary"].format(paper=paper)))


def _section_asked(words: dict[str, str], summary: str, section: str) -> Conversation:
    return review_conversation(words["section"].format(summary=summary or "(none)", section=section))


def _verdicts_asked(fences: Fences, concerns: Sequence[str], paper: str) -> Conversation:
    return tuple(Message.model_validate(each) for each in grounding_messages(concerns, paper, fences))


def _is_complete(n: int, text: str) -> bool:
    return len(read_verdicts(text, n, STATUSES)) == n


def _is_text(text: str) -> bool:
    return bool(_summary(Reply(text))[0])


def concerns_json(concerns: Sequence[Concern]) -> str:
    """Return concerns as the JSON array that a reply is."""
    return json.dumps([each.model_dump() for each in concerns], ensure_ascii=False)


@cache
def words_of() -> dict[str, str]:
    """Return what each stage asks."""
    text = resources.files("evals.review").joinpath("staged.toml").read_text(encoding="utf-8")
    return {name: each.strip() for name, each in tomllib.loads(text).items()}
