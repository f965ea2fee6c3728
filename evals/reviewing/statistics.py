"""A corpus counted: the statistics file, with an audit of what the budget did to whom."""

import hashlib
import math
from collections import Counter as Tally
from collections.abc import Sequence
from statistics import mean, median

from evals.reviewing.budget import instructions
from evals.reviewing.corpora import Corpus, Recipe, Taught
from evals.reviewing.prompt import PROMPT_VERSION, prompt_sha256
from evals.schema.corpora import (
    BinAudit,
    BudgetRecord,
    CorpusStatistics,
    Spread,
    TruncationAudit,
)

BINS = ((4_000, "below 4k"), (8_000, "4k to 8k"), (12_000, "8k to 12k"), (14_500, "12k to 14.5k"))
LONGEST_BIN = "14.5k and more"


def statistics_of(
    corpus: Corpus, recipe: Recipe, source: str, file: tuple[str, str]
) -> CorpusStatistics:
    """Return the counts of a corpus; `file` is the name of its rows' file and the text in it."""
    taught, rows = corpus.taught, corpus.rows
    budget = recipe.budget
    return CorpusStatistics(
        corpus=recipe.rules.name,
        split=corpus.split,
        source=source,
        prompt_version=PROMPT_VERSION,
        prompt_sha256=prompt_sha256(),
        budget=BudgetRecord(
            tokenizer=recipe.counter.name,
            context=budget.context,
            reply_reserve=budget.reply_reserve,
            overlap=budget.overlap,
            max_parts=budget.max_parts,
            instructions=instructions(recipe.counter),
        ),
        articles_read=corpus.read,
        articles_kept=len(taught),
        articles_dropped=corpus.articles_dropped,
        families=len({each.example.family for each in taught}),
        synthetic=sum(each.example.synthetic for each in taught),
        concerns_before=sum(len(each.example.concerns) for each in taught),
        concerns_after=sum(len(each.concerns) for each in taught),
        concerns_dropped=corpus.concerns_dropped,
        concerns_per_article=spread([len(each.concerns) for each in taught]),
        sources=dict(Tally(each.example.source for each in taught).most_common()),
        rows=len(rows),
        rows_without_concerns=sum(made.row.conversations[2].value == "[]" for made in rows),
        parts={
            str(n): count for n, count in sorted(Tally(len(each.rows) for each in taught).items())
        },
        input_tokens=spread([made.input_tokens for made in rows]),
        reply_tokens=spread([made.reply_tokens for made in rows]),
        paper_tokens=spread([each.rows[0].piece.whole for each in taught]),
        truncation=audit(taught),
        file=file[0],
        file_sha256=hashlib.sha256(file[1].encode()).hexdigest(),
    )


def audit(taught: Sequence[Taught]) -> TruncationAudit:
    """Return how many papers lost text and how much of it, by source and by length."""
    return TruncationAudit(
        overall=_audit(taught),
        by_source={
            source: _audit([each for each in taught if each.example.source == source])
            for source in sorted({each.example.source for each in taught})
        },
        by_length={
            name: _audit([each for each in taught if length_bin(each.rows[0].piece.whole) == name])
            for name in (*(name for _, name in BINS), LONGEST_BIN)
        },
    )


def length_bin(tokens: int) -> str:
    """Return the name of the length that a paper of so many tokens has."""
    return next((name for limit, name in BINS if tokens < limit), LONGEST_BIN)


def _audit(taught: Sequence[Taught]) -> BinAudit:
    lost = sum(each.rows[0].piece.lost for each in taught)
    whole = sum(each.rows[0].piece.whole for each in taught)
    cut = sum(each.rows[0].piece.lost > 0 for each in taught)
    return BinAudit(
        papers=len(taught), cut=cut, share_lost=round(lost / whole, 6) if whole else 0.0
    )


def spread(values: Sequence[float]) -> Spread:
    """Return how values lie; zeros for none."""
    if not values:
        return Spread(low=0, mean=0, median=0, p90=0, high=0)
    ordered = sorted(values)
    return Spread(
        low=ordered[0],
        mean=round(mean(ordered), 2),
        median=median(ordered),
        p90=ordered[math.ceil(0.9 * len(ordered)) - 1],
        high=ordered[-1],
    )
