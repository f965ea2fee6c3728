"""Ask with evidence: the refiner answers from passages, each claim with its citations, the rubric and the reward beside it."""

import hashlib
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import Any

from pydantic import ValidationError

from evals.errors import LabError, first_problem
from evals.refine.bank import ids_for_testing, refiner_bank
from evals.refine.cases import CheckedRecord
from evals.refine.grammar import HARD, OPENING, SOFT, TAG, Evidence, content, evidence_of, split_words
from evals.refine.judge import QUOTED
from evals.refine.task import messages
from evals.schema.refiner import (
    BehaviourItem,
    CheckedClaim,
    JudgedItem,
    KeptRefinement,
    Origin,
    RefinedAnswer,
    RefinerRecord,
    RewardConfig,
    ScoredAnswer,
)
from evals.schema.votes import AnnotationItem
from lab.ask import by_words, support_kind, support_word
from lab.services import Services, find_judge
from lab.session import (
    Cards,
    Moment,
    QuestionRequest,
    View,
    Visitor,
    checked_sampling,
    new_id,
    new_visitor,
    origin,
    plain_text,
    stream_answers,
)
from lab.shared.rater import RATED, Rater
from lab.ui.components import Html, cards, empty, escape, grid, notice, render, stage_name, thumbs, waiting_line
from lab.ui.text import lines, plural, say

REWARD = RewardConfig()
USUAL = 256
"""Tokens of an answer that cites, where nobody chose another length."""
LINE = re.compile(r"([+\-−–])\s*(?:\[([0-9.]+)\]\s*)?([^:\[\s][^:]*):\s*(.+)")
JUDGE_SECONDS = 120.0
"""How long a visitor waits for the verdicts on all answers to a question."""
LONGEST = 60_000
"""Characters of question, evidence and rubric together; a model's own limit is lower and told in tokens."""


# ---- what is asked -------------------------------------------------------------------------------


def form_values(record: RefinerRecord) -> tuple[str, str, str]:
    """Return a record as the form shows it: question, evidence, rubric."""
    rows = []
    for sign, items in (("+", record.positive_rubrics), ("-", record.negative_rubrics)):
        for item in items:
            weight = "" if item.weight == 1.0 else f"[{item.weight:g}] "
            rows.append(f"{sign} {weight}{' '.join(item.title.split())}: {' '.join(item.description.split())}")
    return record.asked, record.tool_output, "\n".join(rows)


def evidence_examples(n: int = 3) -> Sequence[RefinerRecord]:
    """Return a few records that may be trained on and whose evidence holds the answer."""
    return [each for each in refiner_bank().train if each.answerable][:n]


def record_of(question: str, evidence: str, rubric: str = "") -> RefinerRecord:
    """Return the record of our own that says this, or a new one, named after what it says.

    Evidence without markup is numbered by paragraphs: S1, S2, … LabError for what cannot be read.
    """
    question, evidence, rubric = map(plain_text, (question, evidence, rubric))
    if not question:
        raise LabError(say("question.empty"))
    length = len(question) + len(evidence) + len(rubric)
    if length > LONGEST:
        raise LabError(say("refine.long", length=length, limit=LONGEST))
    if not OPENING.search(evidence):
        found = enumerate(filter(None, map(str.strip, re.split(r"\n\s*\n", evidence))), 1)
        evidence = "\n".join(f"<snippet id=S{n}>{text}</snippet>" for n, text in found)
    for record in (*refiner_bank().test, *refiner_bank().train):
        if form_values(record) == (question, evidence, rubric):
            return record
    positive, negative = rubric_of(rubric)
    digest = hashlib.sha256(repr((question, evidence, rubric)).encode()).hexdigest()[:12]
    try:
        checked = CheckedRecord(
            id=f"typed/{digest}",
            prompt=question,
            tool_output=evidence,
            positive_rubrics=positive,
            negative_rubrics=negative,
            origin="typed in the lab",
        )
    except ValidationError as error:
        raise LabError(say("refine.bad_record", problem=first_problem(error)[1])) from None
    return RefinerRecord.model_validate(checked.model_dump())


def rubric_of(text: str) -> tuple[tuple[BehaviourItem, ...], tuple[BehaviourItem, ...]]:
    r"""Return the wanted and the unwanted behaviours of a typed rubric; LabError names the line.

    >>> wanted, unwanted = rubric_of('+ Way: Says "down".\n- Hedge: Says "maybe".')
    >>> wanted[0].title, unwanted[0].description
    ('Way', 'Says "maybe".')
    """
    wanted: list[BehaviourItem] = []
    unwanted: list[BehaviourItem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        found = LINE.fullmatch(line.strip())
        try:
            weight = float(found[2] or 1) if found else 0.0
        except ValueError:
            weight = 0.0
        if found is None or weight <= 0:
            raise LabError(say("refine.bad_rubric", number=number, line=line.strip()[:80]))
        item = BehaviourItem(title=found[3].strip(), description=found[4].strip(), weight=weight)
        (wanted if found[1] == "+" else unwanted).append(item)
    return tuple(wanted), tuple(unwanted)


# ---- answered, kept, found again -------------------------------------------------------------------


def answer(
    services: Services, visitor: Visitor | None, record: RefinerRecord, settings: tuple[Any, Any, Any], going: str = ""
) -> Generator[View]:
    """Yield what to show until all is graded and kept, as `going`. `settings`: seed, length, temperature. LabError if it cannot be."""
    asker, sampling = visitor or new_visitor(), checked_sampling(*settings)

    def finish(chain: Any, written: Cards) -> Moment[Cards, KeptRefinement]:
        scored = judge_texts(services, record, [card.text for card in written])
        answers = [
            RefinedAnswer(
                id=new_id(),
                name=card.stage,
                finish_reason=card.finish_reason or "cancelled",
                scored=each,
                origin=Origin.model_validate(origin(chain, card.stage, sampling)),
            )
            for card, each in zip(written, scored, strict=True)
        ]
        known = {"id": going or new_id(), "made_at": services.now(), "session": services.store.hash_rater(asker.rater)}
        kept, problem = KeptRefinement(record=record, reward=REWARD, answers=tuple(answers), **known), None
        try:
            services.store.documents("refine").add(kept)
        except LabError as error:  # they are shown even where they cannot be stored
            problem = say("ask.not_kept", problem=error)
        return Moment(kept=kept, problem=problem, is_done=True)

    question = QuestionRequest(asker, record.asked, sampling, "ask", chain=services.refiner, messages=messages(record))
    for moment in stream_answers(services, question, finish):
        if moment.is_replaced:
            return
        yield replace(moment_view(moment), going=going)


def judge_texts(services: Services, record: RefinerRecord, texts: Sequence[str]) -> list[ScoredAnswer]:
    """Return answers to one record with everything that was made of them; LabError if no judge can be asked.

    What the judge fails at is missing, never 0.
    """
    from evals.refine.task import Refine
    from training.judge.judge import collect_verdicts

    judge = find_judge(services.settings.judge)
    task = Refine(judge=lambda asked: collect_verdicts(judge, asked, JUDGE_SECONDS), label=judge.label, reward=REWARD)
    return [ScoredAnswer.model_validate(grade.detail) for grade in task.grade([record] * len(texts), texts)]


def moment_view(moment: Moment[Cards, KeptRefinement]) -> View:
    """Return the view of one moment."""
    if moment.kept is not None:
        told = say("refine.done", answers=plural(len(moment.kept.answers), "answer"))
        line = notice(moment.problem, "problem") if moment.problem else notice(told, "good")
        return View(line, refinement_html(moment.kept), moment.kept.id)
    if moment.is_done:
        return View(notice(say("refine.stopped_early")), empty(say("ask.empty")))
    if not moment.written:
        line = waiting_line(moment.waiting) if moment.waiting else ""
        return View(notice(line), empty(say("ask.empty")), is_busy=True)
    line = say("refine.judging") if moment.is_grading else say("refine.writing")
    return View(notice(line), cards(moment.written), is_busy=True)


def refinements(services: Services, visitor: Visitor | None) -> Sequence[KeptRefinement]:
    """Return what this browser asked with evidence, newest first."""
    if visitor is None:
        return ()
    return services.store.documents("refine").newest(services.store.hash_rater(visitor.rater))


def find_refinement(services: Services, visitor: Visitor | None, name: str | None) -> KeptRefinement | None:
    """Return what was asked with evidence, by its id or that of one of its answers; None if it was something else."""
    return next((each for each in refinements(services, visitor) if each.id == name or each.answer(name or "")), None)


def refinement_view(services: Services, visitor: Visitor | None, kept: KeptRefinement) -> View:
    """Return the answers as they were kept."""
    line = say("ask.history.shown", when=f"{kept.made_at:%d %b %H:%M} UTC")
    return View(notice(line), refinement_html(kept, Rater(services, visitor).thumbs()), kept.id)


def refinement_label(kept: KeptRefinement) -> str:
    """Return a line to find it by."""
    asked = shorten(kept.record.asked, 80, placeholder="…")
    return f"{kept.made_at:%d %b %H:%M} UTC · {asked} · {say('ask.evidence.with')}"


def items_of(kept: KeptRefinement) -> list[AnnotationItem]:
    """Return the answers as items to be rated, with the whole prompt; none of a record that is kept for testing."""
    if ids_for_testing([kept.record]):
        return []
    system, *_, asked = messages(kept.record)
    return [
        AnnotationItem(
            id=f"{RATED}:{each.id}",
            project=RATED,
            added_at=kept.made_at,
            question=asked.content,
            text=each.scored.completion,
            system_prompt=system.content,
            example_id=kept.record.id,
            stage=each.name,
            chain=each.origin.chain if each.origin else "",
            source=f"answer {each.id}",
        )
        for each in kept.answers
    ]


# ---- how it is shown -----------------------------------------------------------------------------

draw = partial(render, "ask/evidence.html.jinja")
WORD = re.compile(r"\w[\w.,-]*\w|\w")
SIGNS = {1.0: "✓", 0.5: "½", 0.0: "✗", None: "?"}


def rubric(items: Sequence[JudgedItem], *, is_judged: bool = True) -> Html:
    """Return each item with what was seen of it and what it earns; closed where nobody judged."""
    shown = []
    for item in items:
        tone = "missing" if item.value is None else "good" if item.value >= 0.5 else "bad"
        seen = "missing" if item.score is None else "yes" if item.score >= 0.5 else "no"
        kind = [say("refine.item.wanted" if item.polarity == "positive" else "refine.item.unwanted")]
        kind += [] if item.weight == 1.0 else [say("refine.item.weight", weight=item.weight)]
        kind += [say("refine.item.static")] if item.origin == "static" else []
        verdict = say(f"refine.item.{seen}", percent="–" if item.score is None else f"{100 * item.score:.0f}%")
        earns, badge = say("refine.item.earns", value=_figure(item.value)), "quiet" if tone == "missing" else tone
        shown.append((item, tone, badge, " · ".join(kind), in_words(item.description), verdict, earns))
    return draw("rubric", items=shown, is_judged=is_judged)


def in_words(description: str) -> str:
    """Return an item's description with its alternatives as a person would write them.

    >>> in_words('Names a mission: "RR-1|RR-6|MHU-2".')
    'Names a mission: "RR-1", "RR-6" or "MHU-2".'
    """

    def listed(quoted: re.Match[str]) -> str:
        named = [f'"{way.strip()}"' for way in quoted[1].split("|") if way.strip()]
        return say("refine.item.or", most=", ".join(named[:-1]), last=named[-1]) if named[1:] else "".join(named)

    return QUOTED.sub(listed, description)


def parts(scored: ScoredAnswer, reward: RewardConfig) -> Html:
    """Return how the reward comes about: checks, rubric, citations and how they are put together."""
    checks = scored.format_checks
    citation = say("refine.not_measured")
    if scored.citation_f1 is not None:
        names = ("citation_precision", "citation_recall", "citation_f1", "alce_precision", "alce_recall")
        citation = say(
            f"refine.citation{by_words(scored.judge)}", **{name: _figure(getattr(scored, name)) for name in names}
        )
    return draw(
        "parts",
        checks=say("refine.checks", passed=sum(checks.values()), n=len(checks), bonus=scored.format_bonus),
        failed=[name for name in (*HARD, *SOFT) if not checks.get(name, True)],
        rubric=_figure(scored.rubric),
        citation=citation,
        sum=_sum(scored, reward),
        problems=scored.problems,
    )


def _sum(scored: ScoredAnswer, reward: RewardConfig) -> str:
    """Return the sum in figures; where a rule decided, the rule in words."""
    if scored.reward is None or scored.quality is None or scored.reason[:6] != "graded":
        # which checks failed stands above, in words
        return say("refine.sum.rule", reason=scored.reason.partition(":")[0], reward=_figure(scored.reward))
    weight = reward.citation_weight
    return say(
        "refine.sum",
        first=1.0 - weight if reward.combine == "convex" else 1.0,
        rubric=_figure(scored.rubric),
        second=weight,
        citation=_figure(getattr(scored, f"citation_{reward.citation_metric}")),
        quality=scored.quality,
        scale=reward.verification_reward,
        reward=scored.reward,
    )


def refinement_html(kept: KeptRefinement, given: Mapping[str, Any] | None = None) -> str:
    """Return all answers of a refinement, and a table if there are several. `given`: the thumbs of who looks, by answer."""
    evidence, is_rated = evidence_of(kept.record.tool_output), not ids_for_testing([kept.record])
    judge = next((each.scored.judge for each in kept.answers if each.scored.is_judged), "")
    who = say("refine.judged_by", judge=judge) if judge else say("refine.judged_by.nobody")
    shown = []
    for each in kept.answers:
        scored = each.scored
        whys = [_why(n, claim, each, evidence) for n, claim in enumerate(scored.claims, 1)]
        shown.append(
            draw(
                "card",
                answer=each,
                title=stage_name(each.name),
                meaning=lines().get(f"stage.{each.name}", say("stage.other")),
                text=Html(claims_html(scored, each.id)),
                whys=whys,
                rubric=rubric(scored.items, is_judged=scored.is_judged),
                parts=parts(scored, kept.reward),
                beneath=thumbs(each.id, (given or {}).get(each.id)) if is_rated else say("refine.held_out"),
            )
        )
    return draw(
        "sheets",
        judged=f"{who} {say('refine.judged_by.words')}" if by_words(judge) else who,
        table=comparison_table(kept.answers) if len(kept.answers) > 1 else "",
        legend=[(support_kind(each), sign, support_word(each, judge)) for each, sign in SIGNS.items()],
        cards=shown,
    )


def comparison_table(answers: Sequence[RefinedAnswer]) -> Html:
    """Return the answers' figures under each other; the highest reward is marked."""
    best = max((each.scored.reward or 0.0 for each in answers), default=0.0)
    names = ("rubric", "citation_precision", "citation_recall", "citation_f1", "alce_precision", "alce_recall")
    rows = []
    for each in answers:
        scored, reward = each.scored, _figure(each.scored.reward)
        is_best = scored.reward is not None and 0 < best == scored.reward
        figures = (_figure(getattr(scored, name)) for name in names)
        rows.append(
            (stage_name(each.name), Html(f"<b>{reward}</b>") if is_best else reward, *figures, len(scored.claims))
        )
    columns = ("answer", "reward", "rubric", "precision", "recall", "f1", "alce_precision", "alce_recall", "claims")
    return grid(say("refine.compared"), tuple(say(f"refine.column.{name}") for name in columns), rows)


def claims_html(scored: ScoredAnswer, key: str = "") -> str:
    """Return an answer without its tags, each claim to click on; without a readable block, as it was written."""
    text = scored.completion
    pieces = [(each.start, each.end, _claim(n, each, scored.judge, key)) for n, each in enumerate(scored.claims, 1)]
    pieces += [
        (each.start, each.end, f'<span class="uncited" title="{say("refine.uncited")}">{escape(each.text)}</span>')
        for each in scored.uncited
        if each.needs_citation
    ]
    if not pieces and not all(scored.format_checks.values()):
        return escape(text)
    made, at = [], 0
    for start, end, markup in sorted(pieces):
        made += [escape(TAG.sub("", text[at:start])), markup]
        at = end
    return "".join([*made, escape(TAG.sub("", text[at:]))]).strip()


def _claim(number: int, claim: CheckedClaim, judge: str, key: str) -> str:
    return draw(
        "claim",
        name=f"{key}-{number}",
        kind=support_kind(claim.support),
        sign=SIGNS[claim.support],
        told=say("refine.claim.open", number=number, support=support_word(claim.support, judge)),
        words=claim.text or say("refine.claim.empty"),
        ids=", ".join(claim.ids) or say("refine.claim.no_ids"),
    )


def _why(number: int, claim: CheckedClaim, answer: RefinedAnswer, evidence: Evidence) -> Html:
    cited = []
    for each in claim.citations:
        if not each.is_known:
            cited.append((each, "unknown", ""))
        else:
            relevant = "missing"
            if each.relevant is not None:
                relevant = f"{'yes' if each.relevant else 'no'}{by_words(answer.scored.judge)}"
            cited.append((each, relevant, _bold_shared(evidence[each.id], claim.text)))
    head = say("refine.why", number=number, support=support_word(claim.support, answer.scored.judge))
    return draw(
        "why", name=f"{answer.id}-{number}", kind=support_kind(claim.support), head=head, claim=claim, citations=cited
    )


def _bold_shared(snippet: str, claim: str) -> Html:
    """Return a snippet with the words that the claim has too made bold."""
    said, made, at = content(claim), [], 0
    for word in WORD.finditer(snippet):
        if said & content(word[0]) and split_words(word[0]):
            made.append(f"{escape(snippet[at : word.start()])}<b>{escape(word[0])}</b>")
            at = word.end()
    return Html("".join([*made, escape(snippet[at:])]))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
