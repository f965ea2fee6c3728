"""What the Refine tab shows: stages side by side, each claim with a colour, a sign and words for its citation check."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evals.refine.grammar import HARD, SOFT, TAG, Evidence, content, evidence_of, tokens
from evals.refine.judge import QUOTED
from evals.schema.refiner import (
    AnswerMark,
    CheckedClaim,
    JudgedItem,
    KeptRefinement,
    RefinedAnswer,
    RewardConfig,
    ScoredAnswer,
)
from lab.refine import by_words, support_kind, support_word
from lab.ui.components import Html, empty, escape, grid, render, stage_name
from lab.ui.text import lines, say

draw = partial(render, "refine/view.html.jinja")
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


@dataclass(frozen=True)
class Sheet:
    """One graded answer as it is shown: its `key` in the page, its heading, and what can be done."""

    key: str
    title: str
    meaning: str
    scored: ScoredAnswer
    finish_reason: str = "given"
    rating: str | None = None
    has_buttons: bool = False


def refined(kept: KeptRefinement | None, marks: Sequence[AnswerMark] = ()) -> str:
    """Return all answers of a refinement, corrections after what they correct; a table if several."""
    if kept is None:
        return empty(say("refine.empty"))
    sheets = sheets_of(kept, marks)
    evidence = evidence_of(kept.record.tool_output)
    judge = next((sheet.scored.judge for sheet in sheets if sheet.scored.is_judged), "")
    who = say("refine.judged_by", judge=judge) if judge else say("refine.judged_by.nobody")
    return draw(
        "sheets",
        judged=f"{who} {say('refine.judged_by.words')}" if by_words(judge) else who,
        table=compared(sheets) if len(sheets) > 1 else "",
        legend=[(support_kind(each), sign, support_word(each, judge)) for each, sign in SIGNS.items()],
        cards=[_card(sheet, evidence, kept.reward) for sheet in sheets],
    )


def _card(sheet: Sheet, evidence: Evidence, reward: RewardConfig) -> Html:
    scored, text = sheet.scored, Html(coloured(sheet.scored, sheet.key))
    whys = [_why(n, claim, sheet, evidence) for n, claim in enumerate(scored.claims, 1)]
    items = rubric(scored.items, is_judged=scored.is_judged)
    return draw("card", sheet=sheet, text=text, whys=whys, rubric=items, parts=parts(scored, reward))


def sheets_of(kept: KeptRefinement, marks: Sequence[AnswerMark]) -> list[Sheet]:
    """Return what is shown of a refinement, in order."""
    known = {mark.answer_id: mark for mark in marks}
    found = []
    for answer in kept.answers:
        mark = known.get(answer.id, AnswerMark(answer_id=answer.id))
        title = title_of(answer)
        meaning = lines().get(f"stage.{answer.name}", say("stage.other"))
        meaning = say("refine.yours.meaning") if answer.name == "yours" else meaning
        found.append(Sheet(answer.id, title, meaning, answer.scored, answer.finish_reason, mark.rating, True))
        if mark.correction is not None:
            corrected = say("refine.correction", name=title)
            found.append(Sheet(f"{answer.id}-corrected", corrected, say("refine.correction.meaning"), mark.correction))
    return found


def title_of(answer: RefinedAnswer) -> str:
    return say("refine.yours") if answer.name == "yours" else stage_name(answer.name)


def compared(sheets: Sequence[Sheet]) -> Html:
    """Return the answers' figures under each other; the highest reward is marked."""
    best = max((sheet.scored.reward or 0.0 for sheet in sheets), default=0.0)
    names = ("rubric", "citation_precision", "citation_recall", "citation_f1", "alce_precision", "alce_recall")
    rows = []
    for sheet in sheets:
        scored, reward = sheet.scored, _figure(sheet.scored.reward)
        is_best = scored.reward is not None and 0 < best == scored.reward
        figures = (_figure(getattr(scored, name)) for name in names)
        rows.append((sheet.title, Html(f"<b>{reward}</b>") if is_best else reward, *figures, len(scored.claims)))
    columns = ("answer", "reward", "rubric", "precision", "recall", "f1", "alce_precision", "alce_recall", "claims")
    return grid(say("refine.compared"), tuple(say(f"refine.column.{name}") for name in columns), rows)


def coloured(scored: ScoredAnswer, key: str = "") -> str:
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


def _why(number: int, claim: CheckedClaim, sheet: Sheet, evidence: Evidence) -> Html:
    cited = []
    for each in claim.citations:
        if not each.is_known:
            cited.append((each, "unknown", ""))
        else:
            relevant = "missing"
            if each.relevant is not None:
                relevant = f"{'yes' if each.relevant else 'no'}{by_words(sheet.scored.judge)}"
            cited.append((each, relevant, _shared(evidence[each.id], claim.text)))
    head = say("refine.why", number=number, support=support_word(claim.support, sheet.scored.judge))
    return draw(
        "why", name=f"{sheet.key}-{number}", kind=support_kind(claim.support), head=head, claim=claim, citations=cited
    )


def _shared(snippet: str, claim: str) -> Html:
    """Return a snippet with the words that the claim has too made bold."""
    said, made, at = content(claim), [], 0
    for word in WORD.finditer(snippet):
        if said & content(word[0]) and tokens(word[0]):
            made.append(f"{escape(snippet[at : word.start()])}<b>{escape(word[0])}</b>")
            at = word.end()
    return Html("".join([*made, escape(snippet[at:])]))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
