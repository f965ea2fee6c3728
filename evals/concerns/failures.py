"""What went wrong in reviews: how each answer ended, and which articles nothing was found in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from evals.concerns.clean import key_of, written
from evals.concerns.parse import parse
from evals.schema.reviewreports import (
    ErrorAnalysis,
    Mode,
    RecallBin,
    SharedErrors,
    WorstArticle,
)
from evals.schema.reviews import ParseStatus, PredictionRow
from evals.schema.reviewscores import ArticleScore, ReviewScore

WORST = 10
LOOP_TIMES = 10
"""How often the same line or concern stands in an answer that goes in circles."""
LOOP_LINE = 20
"""Characters of a line from which a repeat counts; brackets and commas repeat in any list."""
LOOP_TEXT = 200
STATUSES = get_args(ParseStatus)
BINS: tuple[RecallBin, ...] = ("all", "half or more", "below half", "none", "no human concerns")


def mode_of(row: PredictionRow | None) -> Mode:
    """Return how an answer ended; a row that keeps no `raw_output` is judged by its concerns alone.

    A row that says its own `status`, as `assay review infer` writes it, is believed. A loop is a line of more than 20 characters, or a concern, that stands in it ten times or more.
    """
    if row is None:
        return "missing"
    extra = row.model_extra or {}
    raw = extra.get("raw_output")
    if _is_loop(raw if isinstance(raw, str) else "", row):
        return "loop"
    if extra.get("finish_reason") == "length":
        return "cut"
    known = extra.get("status")
    status = known if known in STATUSES else None
    if status is None and isinstance(raw, str):
        status = parse(row.article_id, raw).status
    if any((each.text or "").strip() for each in written(row)):
        return "ok" if status in {None, "ok"} else "partial"
    return "failed" if status in {"failed", "partial"} else "empty"


def errors_of(
    articles: Sequence[ArticleScore], rows: Mapping[str, PredictionRow] | None
) -> ErrorAnalysis:
    """Return the error analysis of a system; without its rows nothing is said of how answers ended."""
    modes: dict[str, Mode] = {}
    if rows is not None:
        modes = {each.article_id: mode_of(rows.get(each.article_id)) for each in articles}
    counts: Counter[Mode] = Counter(modes.values())
    bins = Counter(recall_bin(each) for each in articles)
    failed = [each for each in articles if each.n_human and not each.n_matched]
    failed.sort(key=lambda each: (-each.n_human, each.article_id))
    return ErrorAnalysis(
        modes=dict(counts.most_common()),
        not_ok={name: mode for name, mode in modes.items() if mode != "ok"},
        recall={name: bins[name] for name in BINS if bins[name]},
        worst=tuple(
            WorstArticle(
                article_id=each.article_id,
                source=each.source,
                mode=modes.get(each.article_id),
                n_human=each.n_human,
                n_predicted=each.n_predicted,
            )
            for each in failed[:WORST]
        ),
    )


def recall_bin(article: ArticleScore) -> RecallBin:
    """Return where an article's recall falls; one without human concerns has none, here as in scoring."""
    if not article.n_human:
        return "no human concerns"
    if not article.n_matched:
        return "none"
    if article.n_matched == article.n_human:
        return "all"
    return "half or more" if article.recall >= 0.5 else "below half"


def shared_of(scores: Sequence[ReviewScore]) -> SharedErrors | None:
    """Return what systems miss together and find alone; None for one system or scores without articles."""
    if len(scores) < 2 or any(each.articles is None for each in scores):
        return None
    found: Counter[tuple[str, int]] = Counter()
    by: dict[tuple[str, int], str] = {}
    for score in scores:
        for article in score.articles or ():
            for pair in article.pairs:
                place = (article.article_id, pair.human)
                found[place] += 1
                by[place] = score.system
    alone = Counter(by[place] for place, n in found.items() if n == 1)
    hit = {article for article, _ in found}
    first = scores[0].articles or ()
    n_human = sum(each.n_human for each in first)
    return SharedErrors(
        none_found=tuple(
            each.article_id for each in first if each.n_human and each.article_id not in hit
        ),
        n_found_by_one={score.system: alone[score.system] for score in scores},
        n_found_by_all=sum(n == len(scores) for n in found.values()),
        n_found_by_none=n_human - len(found),
    )


def _is_loop(raw: str, row: PredictionRow) -> bool:
    lines = Counter(line.strip() for line in raw.splitlines() if len(line.strip()) > LOOP_LINE)
    if len(raw) >= LOOP_TEXT and max(lines.values(), default=0) >= LOOP_TIMES:
        return True
    said = Counter(key_of(each.text or "") for each in written(row) if (each.text or "").strip())
    if raw and max(said.values(), default=0) < LOOP_TIMES:
        # A cleaned row has lost its repeats; what the model wrote still has them.
        said = Counter(key_of(each.text) for each in parse(row.article_id, raw).concerns)
    return max(said.values(), default=0) >= LOOP_TIMES
