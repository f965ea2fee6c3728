"""What the Refine tab shows, as HTML: stages side by side, each claim coloured by its citation check.

Every word of a record, a model or a person goes through `escape`: an answer with a script in it shows
the script. A colour never stands alone: a sign and words say the same.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.refine.grammar import HARD, SOFT, TAG, Evidence, evidence_of
from evals.refine.judge import QUOTED, HeuristicJudge
from evals.refine.words import content, tokens
from evals.schema.refiner import (
    CheckedClaim,
    JudgedItem,
    KeptRefinement,
    Mark,
    RefinedAnswer,
    Relevance,
    RewardConfig,
    ScoredAnswer,
)
from lab.session import stage_name
from lab.ui.components import Html, empty, escape, grid
from lab.ui.text import lines, say


def rubric(items: Sequence[JudgedItem], *, is_judged: bool = True) -> str:
    """Return each item with what was seen of it, the quote it rests on and what it earns.

    Closed where nobody judged: there is nothing to see in an answer that cannot be read.
    """
    rows = "".join(_item(item) for item in items)
    head = escape(say("refine.rubric" if is_judged else "refine.rubric.not_judged"))
    state = " open" if is_judged else ""
    return f'<details class="rubric"{state}><summary>{head}</summary><ul>{rows}</ul></details>'


def parts(scored: ScoredAnswer, reward: RewardConfig) -> str:
    """Return how the reward comes about: checks, rubric, citations and how they are put together."""
    rows = (
        (say("refine.part.format"), _checks(scored)),
        (say("refine.part.rubric"), escape(_share(scored.rubric))),
        (say("refine.part.citation"), escape(_refine_parts_citation(scored))),
        (say("refine.part.sum"), escape(_sum(scored, reward))),
    )
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows)
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in scored.problems)
    told = f'<ul class="judge-problems">{problems}</ul>' if problems else ""
    head = escape(say("refine.parts"))
    return f'<details class="reward-parts" open><summary>{head}</summary><dl>{listed}</dl>{told}</details>'


def _item(item: JudgedItem) -> str:
    wanted = item.polarity == "positive"
    tone = "missing" if item.value is None else "good" if item.value >= 0.5 else "bad"
    seen = "missing" if item.score is None else "yes" if item.score >= 0.5 else "no"
    verdict = say(f"refine.item.{seen}", percent=_percent(item.score))
    earns = say("refine.item.earns", value=_share(item.value))
    quote = f"<q>{escape(item.quote)}</q>" if item.quote and item.score else ""
    kind = say("refine.item.wanted" if wanted else "refine.item.unwanted")
    weight = "" if item.weight == 1.0 else f" · {say('refine.item.weight', weight=item.weight)}"
    static = f" · {say('refine.item.static')}" if item.origin == "static" else ""
    return (
        f'<li class="{tone}"><b>{escape(item.title)}</b> <small>{escape(kind + weight + static)}</small>'
        f'<p>{escape(in_words(item.description))}</p><p><span class="badge {_badge(tone)}">{escape(verdict)}</span>'
        f" <small>{escape(earns)}</small></p>{quote}</li>"
    )


def in_words(description: str) -> str:
    """Return an item's description with its alternatives as a person would write them.

    >>> in_words('Names a mission: "RR-1|RR-6|MHU-2".')
    'Names a mission: "RR-1", "RR-6" or "MHU-2".'
    """
    return QUOTED.sub(lambda quoted: _listed(quoted[1].split("|")), description)


def _listed(ways: Sequence[str]) -> str:
    named = [f'"{way.strip()}"' for way in ways if way.strip()]
    return say("refine.item.or", most=", ".join(named[:-1]), last=named[-1]) if named[1:] else "".join(named)


def _badge(tone: str) -> str:
    return "quiet" if tone == "missing" else tone


def _checks(scored: ScoredAnswer) -> str:
    checks = scored.format_checks
    passed = sum(checks.values())
    line = say("refine.checks", passed=passed, n=len(checks), bonus=scored.format_bonus)
    failed = [name for name in (*HARD, *SOFT) if not checks.get(name, True)]
    listed = "".join(f"<li>{escape(say(f'refine.check.{name}'))}</li>" for name in failed)
    return escape(line) + (f"<ul>{listed}</ul>" if listed else "")


def _refine_parts_citation(scored: ScoredAnswer) -> str:
    if scored.citation_f1 is None:
        return say("refine.not_measured")
    return say(
        "refine.citation",
        precision=_share(scored.citation_precision),
        recall=_share(scored.citation_recall),
        f1=_share(scored.citation_f1),
    )


def _sum(scored: ScoredAnswer, reward: RewardConfig) -> str:
    """Return the sum in figures; where a rule decided, the rule in words."""
    if scored.reward is None or scored.quality is None or scored.reason[:6] != "graded":
        value = "–" if scored.reward is None else f"{scored.reward:.2f}"
        rule = scored.reason.partition(":")[0]  # which checks failed stands above, in words
        return say("refine.sum.rule", reason=rule, reward=value)
    weight = reward.citation_weight
    return say(
        "refine.sum",
        first=1.0 - weight if reward.combine == "convex" else 1.0,
        rubric=_share(scored.rubric),
        second=weight,
        citation=_share(getattr(scored, f"citation_{reward.citation_metric}")),
        quality=scored.quality,
        scale=reward.verification_reward,
        reward=scored.reward,
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}%"


WORD = re.compile(r"\w[\w.,-]*\w|\w")
SIGNS = {"full": "✓", "half": "½", "none": "✗", "missing": "?"}
CLICKS = """
const open = (claim) => {
  const card = claim.closest('.refined');
  const wanted = claim.getAttribute('aria-controls');
  const isOpen = claim.getAttribute('aria-expanded') === 'true';
  card.querySelectorAll('.claim[aria-controls]').forEach((each) => {
    const same = each === claim && !isOpen;
    each.setAttribute('aria-expanded', String(same));
  });
  card.querySelectorAll('.claim-why').forEach((each) => { each.hidden = each.id !== wanted || isOpen; });
};
element.addEventListener('click', (event) => {
  const claim = event.target.closest('.claim[aria-controls]');
  if (claim) { open(claim); return; }
  const button = event.target.closest('[data-do]');
  if (!button) return;
  element.dataset.last = `[data-do="${button.dataset.do}"][data-id="${button.dataset.id}"]`;
  trigger('click', { do: button.dataset.do, id: button.dataset.id });
});
element.addEventListener('keydown', (event) => {
  const claim = event.target.closest('.claim[aria-controls]');
  if (!claim || (event.key !== 'Enter' && event.key !== ' ')) return;
  event.preventDefault();
  open(claim);
});
watch('value', () => {
  const last = element.dataset.last;
  const button = last && element.querySelector(last);
  if (button) button.focus({ preventScroll: true });
});
"""
"""A click or Enter on a claim opens its snippets; buttons are told to the lab, and keep the focus."""


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


def refined(kept: KeptRefinement | None, marks: Sequence[Mark] = ()) -> str:
    """Return all answers of a refinement, corrections after what they correct; a table if several."""
    if kept is None:
        return empty(say("refine.empty"))
    sheets = sheets_of(kept, marks)
    evidence = evidence_of(kept.record.tool_output)
    cards = "".join(_card(sheet, evidence, kept.reward) for sheet in sheets)
    table = compared(sheets) if len(sheets) > 1 else ""
    judges = [sheet.scored.judge for sheet in sheets if sheet.scored.is_judged]
    who = say("refine.judged_by", judge=judges[0]) if judges else say("refine.judged_by.nobody")
    if judges and judges[0] == HeuristicJudge.label:
        who = f"{who} {say('refine.judged_by.words')}"
    judged = f'<p class="refine-judge">{escape(who)}</p>'
    return f'<div class="refine-sheets">{judged}{table}{_legend(judges[0] if judges else "")}<div class="cards">{cards}</div></div>'


def sheets_of(kept: KeptRefinement, marks: Sequence[Mark]) -> list[Sheet]:
    """Return what is shown of a refinement, in order."""
    known = {mark.answer_id: mark for mark in marks}
    found = []
    for answer in kept.answers:
        mark = known.get(answer.id)
        found.append(
            Sheet(
                key=answer.id,
                title=title_of(answer),
                meaning=_meaning(answer),
                scored=answer.scored,
                finish_reason=answer.finish_reason,
                rating=mark.rating if mark else None,
                has_buttons=True,
            )
        )
        if mark is not None and mark.correction is not None:
            found.append(
                Sheet(
                    key=f"{answer.id}-corrected",
                    title=say("refine.correction", name=title_of(answer)),
                    meaning=say("refine.correction.meaning"),
                    scored=mark.correction,
                )
            )
    return found


def title_of(answer: RefinedAnswer) -> str:
    """Return who wrote an answer."""
    return say("refine.yours") if answer.name == "yours" else stage_name(answer.name)


def compared(sheets: Sequence[Sheet]) -> Html:
    """Return the answers' figures under each other; the highest reward is marked."""
    best = max((sheet.scored.reward or 0.0 for sheet in sheets), default=0.0)
    rows = [
        (
            sheet.title,
            _best(sheet.scored.reward, best),
            _figure(sheet.scored.rubric),
            _figure(sheet.scored.citation_precision),
            _figure(sheet.scored.citation_recall),
            _figure(sheet.scored.citation_f1),
            _figure(sheet.scored.format_bonus),
            len(sheet.scored.claims),
        )
        for sheet in sheets
    ]
    columns = tuple(
        say(f"refine.column.{name}")
        for name in ("answer", "reward", "rubric", "precision", "recall", "f1", "format", "claims")
    )
    return grid(say("refine.compared"), columns, rows)


def coloured(scored: ScoredAnswer, key: str = "") -> str:
    """Return the words of an answer, its tags left out, each claim to click on.

    An answer without a readable block has no claims: it is shown as it was written, tags and all.
    """
    text = scored.completion
    pieces = [(claim.start, claim.end, _claim(place, claim, scored.judge, key)) for place, claim in _placed(scored)]
    pieces += [
        (each.start, each.end, f'<span class="uncited" title="{say("refine.uncited")}">{escape(each.text)}</span>')
        for each in scored.uncited
        if each.needs_citation
    ]  # fmt: skip
    if not pieces and not all(scored.format_checks.values()):
        return escape(text)
    made, at = [], 0
    for start, end, markup in sorted(pieces):
        made.append(escape(TAG.sub("", text[at:start])))
        made.append(markup)
        at = end
    return "".join([*made, escape(TAG.sub("", text[at:]))]).strip()


def support_of(claim: CheckedClaim) -> str:
    """Return how far a claim is supported, as a word: full, half, none or missing."""
    if claim.support is None:
        return "missing"
    return "full" if claim.support >= 1.0 else "half" if claim.support > 0.0 else "none"


def support_word(kind: str, judge: str) -> str:
    """Return what a claim's colour says; a judge that compares words cannot say that it is supported."""
    by = "words." if judge == HeuristicJudge.label and kind != "missing" else ""
    return say(f"refine.support.{by}{kind}")


def _placed(scored: ScoredAnswer) -> list[tuple[int, CheckedClaim]]:
    return list(enumerate(scored.claims, start=1))


def _claim(number: int, claim: CheckedClaim, judge: str, key: str) -> str:
    kind = support_of(claim)
    name = f"{escape(key)}-{number}"
    told = escape(say("refine.claim.open", number=number, support=support_word(kind, judge)))
    words = escape(claim.text) or escape(say("refine.claim.empty"))
    ids = escape(", ".join(claim.ids)) or escape(say("refine.claim.no_ids"))
    return (
        f'<span class="claim {kind}" role="button" tabindex="0" aria-expanded="false"'
        f' aria-controls="why-{name}" aria-description="{told}" title="{told}">{words}'
        f'<sup><i aria-hidden="true">{SIGNS[kind]}</i> {ids}</sup></span>'
    )


def _why(number: int, claim: CheckedClaim, judge: str, evidence: Evidence, key: str) -> str:
    kind = support_of(claim)
    head = say("refine.why", number=number, support=support_word(kind, judge))
    note = f"<p>{escape(claim.note)}</p>" if claim.note else ""
    cited = "".join(_citation(each, claim, evidence) for each in claim.citations)
    listed = f"<ul>{cited}</ul>" if cited else f"<p>{escape(say('refine.claim.no_ids'))}</p>"
    return (
        f'<section class="claim-why {kind}" id="why-{escape(key)}-{number}" hidden>'
        f"<h4>{escape(head)}</h4><p>“{escape(claim.text)}”</p>{note}{listed}</section>"
    )


def _citation(cited: Relevance, claim: CheckedClaim, evidence: Evidence) -> str:
    if not cited.is_known:
        words = escape(say("refine.cited.unknown"))
        return f'<li class="unknown"><b>{escape(cited.id)}</b> <em>{words}</em></li>'
    kind = "missing" if cited.relevant is None else "yes" if cited.relevant else "no"
    return (
        f'<li class="{kind}"><b>{escape(cited.id)}</b> <em>{escape(say(f"refine.cited.{kind}"))}</em>'
        f"<blockquote>{_shared(evidence[cited.id], claim.text)}</blockquote></li>"
    )


def _shared(snippet: str, claim: str) -> str:
    """Return a snippet with the words that the claim has too made bold."""
    said, made, at = content(claim), [], 0
    for word in WORD.finditer(snippet):
        if said & content(word[0]) and tokens(word[0]):
            made.append(f"{escape(snippet[at : word.start()])}<b>{escape(word[0])}</b>")
            at = word.end()
    return "".join([*made, escape(snippet[at:])])


def _card(sheet: Sheet, evidence: Evidence, reward: RewardConfig) -> str:
    scored = sheet.scored
    text = coloured(scored, sheet.key)
    shown = text or f"<em>{escape(say('answer.empty'))}</em>"
    whys = "".join(_why(n, claim, sheet.scored.judge, evidence, sheet.key) for n, claim in _placed(scored))
    stopped = ""
    if sheet.finish_reason in {"length", "cancelled"}:
        stopped = f'<p class="figures">{escape(say(f"answer.{sheet.finish_reason}"))}</p>'
    meaning = f"<p>{escape(sheet.meaning)}</p>" if sheet.meaning else ""
    raw = escape(scored.completion)
    return (
        f'<article class="card refined" data-title="{escape(sheet.title)}" data-answer="{escape(sheet.key)}">'
        f"<header><h3>{escape(sheet.title)}{_reward(scored)}</h3>{meaning}</header>"
        f'<div class="answer" dir="auto">{shown}</div>{stopped}{whys}'
        f"{rubric(scored.items, is_judged=scored.is_judged)}{parts(scored, reward)}"
        f'<details class="raw"><summary>{escape(say("refine.raw"))}</summary><pre>{raw}</pre></details>'
        f"{_buttons(sheet)}</article>"
    )


def _reward(scored: ScoredAnswer) -> str:
    if scored.reward is None:
        return f'<span class="reward missing">{escape(say("refine.reward.missing"))}</span>'
    return f'<span class="reward">{escape(say("refine.reward", value=scored.reward))}</span>'


def _buttons(sheet: Sheet) -> str:
    if not sheet.has_buttons:
        return ""
    made = []
    for action in ("good", "bad", "correct"):
        state = ""
        if action != "correct":
            state = f' aria-pressed="{str(sheet.rating == action).lower()}"'
        made.append(
            f'<button type="button" data-do="{action}" data-id="{escape(sheet.key)}"{state}'
            f' aria-label="{escape(say(f"refine.{action}"))}: {escape(sheet.title)}">'
            f"{escape(say(f'refine.{action}'))}</button>"
        )
    return f'<p class="refine-buttons">{"".join(made)}</p>'


def _meaning(answer: RefinedAnswer) -> str:
    if answer.name == "yours":
        return say("refine.yours.meaning")
    return lines().get(f"stage.{answer.name}", say("stage.other"))


def _legend(judge: str) -> str:
    kinds = "".join(
        f'<li><span class="claim {kind}"><i aria-hidden="true">{sign}</i> '
        f"{escape(support_word(kind, judge))}</span></li>"
        for kind, sign in SIGNS.items()
    )
    uncited = f'<li><span class="uncited">{escape(say("refine.uncited"))}</span></li>'
    return f'<ul class="refine-legend" aria-label="{escape(say("refine.legend"))}">{kinds}{uncited}</ul>'


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _best(reward: float | None, best: float) -> Html:
    words = escape(_figure(reward))
    return Html(f"<b>{words}</b>" if reward is not None and 0 < best == reward else words)
