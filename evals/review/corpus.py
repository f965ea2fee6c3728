"""Corpora A and B: reviewed papers to training rows by fixed rules, with a count of everything left out."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import mean, median
from typing import Any

from evals.errors import BadConfig, LabError
from evals.io import sha256_of_text
from evals.review.clean import key_of
from evals.review.prompt import (
    PROMPT_VERSION,
    Budget,
    PaperPart,
    TokenCounter,
    instructions,
    pieces_of,
    prompt_sha256,
    request,
    review_system_prompt,
)
from evals.schema import Conversation, ReviewExample, Split, Turn
from evals.schema.articles import Spread
from evals.schema.reviews import SEVERITIES, HumanConcern

WORD = re.compile(r"[a-z][a-z0-9-]{2,}|\d+(?:\.\d+)?")
STEM = 6
"""Letters by which words are compared: "replicate" and "replication" are one."""


def best_parts(concerns: Sequence[str], parts: Sequence[str]) -> list[int]:
    """Return, for each concern, the place of the part that supports it best; the first one on ties.

    Support is the weight of a concern's words found in a part; a word that stands in every part weighs
    nothing. Numbers count like words, and are what ties a concern to its place most often.
    """
    found = [words_of(part) for part in parts]
    spread = Counter(word for words in found for word in words)
    places = []
    for concern in concerns:
        words = words_of(concern)
        scores = [sum(math.log(len(parts) / spread[word]) for word in words & part) for part in found]
        places.append(max(range(len(parts)), key=lambda at: (scores[at], -at)))
    return places


def words_of(text: str) -> set[str]:
    """Return the beginnings of a text's words, and its numbers, each once."""
    return {word[:STEM] for word in WORD.findall(text.lower())}


ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
"""ShareGPT's names for who speaks, and those that chat templates use."""


@dataclass(frozen=True)
class Made:
    """A row, the part of the paper it holds, and the tokens of what is read and of the reply."""

    row: Conversation
    piece: PaperPart
    input_tokens: int
    reply_tokens: int


def paper_rows(
    example: ReviewExample, concerns: Sequence[HumanConcern], budget: Budget, counter: TokenCounter
) -> list[Made]:
    """Return the rows of a paper; each concern stands in the row of the part that it is about.

    LabError if a row would not fit its context: that is checked for every one, with the whole
    conversation counted as the model's own template writes it.
    """
    longest = len(counter.ends(reply_of(concerns)))
    room = budget.paper(counter, longest)
    pieces = pieces_of(example.article, room, counter, budget.overlap, budget.max_parts)
    places = best_parts([each.concern_text for each in concerns], [piece.text for piece in pieces])
    made = []
    for at, piece in enumerate(pieces):
        mine = [each for each, place in zip(concerns, places, strict=True) if place == at]
        row = Conversation(
            id=example.id if piece.parts == 1 else f"{example.id}#{piece.part}",
            article_id=example.id,
            source=example.source,
            family=example.family,
            part=piece.part,
            parts=piece.parts,
            synthetic=example.synthetic,
            prompt_version=PROMPT_VERSION,
            prompt_sha256=prompt_sha256(),
            conversations=(
                Turn(role="system", value=review_system_prompt()),
                Turn(role="human", value=request(piece.text, piece.part, piece.parts)),
                Turn(role="gpt", value=reply_of(mine)),
            ),
        )
        whole = counter.chat(messages_of(row))
        empty = counter.chat([*messages_of(row)[:2], {"role": "assistant", "content": ""}])
        if whole > budget.context:
            raise LabError(
                f"the row {row.id} has {whole} tokens ({whole - empty} of them the reply) in a context"
                f" of {budget.context}; a reply is never cut. This should not happen: please report the paper."
            )
        made.append(Made(row, piece, empty, whole - empty))
    return made


def reply_of(concerns: Sequence[HumanConcern]) -> str:
    """Return concerns as the JSON array that a model is taught to answer with."""
    items = [{"text": each.concern_text, "category": each.category, "severity": each.severity} for each in concerns]
    return json.dumps(items, ensure_ascii=False)


def messages_of(row: Conversation) -> list[dict[str, str]]:
    """Return a row's turns with the roles that chat templates know."""
    return [{"role": ROLES[turn.role], "content": turn.value} for turn in row.conversations]


@dataclass(frozen=True)
class Rules:
    """What a corpus asks for. A concern without a stated confidence counts as confidence 0."""

    name: str
    min_confidence: float
    min_concerns: int
    with_figures: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise BadConfig(f"the least confidence is {self.min_confidence}; it takes a number from 0 to 1.")
        if self.min_concerns < 1:
            raise BadConfig(f"the fewest concerns are {self.min_concerns}; use 1 or more.")


CORPORA = {"a": Rules("A", 0.0, 1), "b": Rules("B", 0.8, 3)}
"""A: every paper with a concern that needs no figure. B: surely answered concerns, three or more."""


def select(concerns: Sequence[HumanConcern], rules: Rules) -> tuple[tuple[HumanConcern, ...], Counter[str]]:
    """Return the concerns that the rules keep, important ones first, and how many were dropped for which reason."""
    kept: dict[tuple[str, str, str], HumanConcern] = {}
    dropped: Counter[str] = Counter()
    for each in concerns:
        key = (key_of(each.concern_text), each.category, each.severity)
        if not rules.with_figures and (each.requires_figure_reading or each.category == "figure_issue"):
            dropped["needs a figure"] += 1
        elif each.resolution_confidence < rules.min_confidence:
            dropped[f"confidence below {rules.min_confidence:g}"] += 1
        elif key in kept:
            dropped["said twice"] += 1
        else:
            kept[key] = each
    return tuple(sorted(kept.values(), key=lambda each: SEVERITIES.index(each.severity))), dropped


OnCount = Callable[[int, int], None]
"""Called with papers done and in all."""


@dataclass(frozen=True)
class Taught:
    """A kept paper, the concerns it is taught with, and its rows."""

    example: ReviewExample
    concerns: tuple[HumanConcern, ...]
    rows: tuple[Made, ...]


@dataclass
class Corpus:
    """One split of a corpus and what was left out of it, by reason."""

    rules: Rules
    split: Split
    read: int
    taught: list[Taught] = field(default_factory=list)
    articles_dropped: Counter[str] = field(default_factory=Counter)
    concerns_dropped: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> list[Made]:
        """All rows in order."""
        return [made for each in self.taught for made in each.rows]


@dataclass(frozen=True)
class CorpusRecipe:
    """How a corpus is made: which concerns, in how many tokens, counted by whom."""

    rules: Rules
    budget: Budget
    counter: TokenCounter


def make_corpus(
    examples: Sequence[ReviewExample], split: Split, recipe: CorpusRecipe, progress: OnCount | None = None
) -> Corpus:
    """Return the rows of one split. Papers without text and with too few concerns are dropped and counted."""
    mine = [each for each in examples if each.split == split]
    corpus = Corpus(recipe.rules, split, len(mine))
    for done, example in enumerate(mine, start=1):
        kept, dropped = select(example.concerns, recipe.rules)
        if example.is_title_only:
            corpus.articles_dropped["title alone"] += 1
        elif len(kept) < recipe.rules.min_concerns:
            corpus.articles_dropped[f"fewer than {recipe.rules.min_concerns} usable concerns"] += 1
        else:
            rows = paper_rows(example, kept, recipe.budget, recipe.counter)
            corpus.taught.append(Taught(example, kept, tuple(rows)))
            corpus.concerns_dropped += dropped
        if progress is not None:
            progress(done, len(mine))
    return corpus


def corpus_statistics(corpus: Corpus, recipe: CorpusRecipe, source: str, file: tuple[str, str]) -> dict[str, Any]:
    """Return what stands beside the rows of a corpus; `file` is the name of their file and the text in it.

    Papers are dropped by reason, concerns counted of kept papers. `input_tokens` is what a model reads of a row before
    its reply. `cut` are papers that lost text to the budget, `share_lost` what share of all tokens.
    """
    taught, rows = corpus.taught, corpus.rows
    pieces = [each.rows[0].piece for each in taught]
    lost, whole = sum(piece.lost for piece in pieces), sum(piece.whole for piece in pieces)
    return {
        "corpus": recipe.rules.name,
        "split": corpus.split,
        "source": source,
        "prompt_version": PROMPT_VERSION,
        "prompt_sha256": prompt_sha256(),
        "budget": {"tokenizer": recipe.counter.name, "instructions": instructions(recipe.counter)}
        | asdict(recipe.budget),
        "articles_read": corpus.read,
        "articles_kept": len(taught),
        "articles_dropped": dict(corpus.articles_dropped),
        "families": len({each.example.family for each in taught}),
        "synthetic": sum(each.example.synthetic for each in taught),
        "concerns_before": sum(len(each.example.concerns) for each in taught),
        "concerns_after": sum(len(each.concerns) for each in taught),
        "concerns_dropped": dict(corpus.concerns_dropped),
        "sources": dict(Counter(each.example.source for each in taught).most_common()),
        "rows": len(rows),
        "rows_without_concerns": sum(made.row.conversations[2].value == "[]" for made in rows),
        "parts": {str(n): count for n, count in sorted(Counter(len(each.rows) for each in taught).items())},
        "input_tokens": spread([made.input_tokens for made in rows]).model_dump(),
        "reply_tokens": spread([made.reply_tokens for made in rows]).model_dump(),
        "paper_tokens": spread([piece.whole for piece in pieces]).model_dump(),
        "cut": sum(piece.lost > 0 for piece in pieces),
        "share_lost": round(lost / whole, 6) if whole else 0.0,
        "file": file[0],
        "file_sha256": sha256_of_text(file[1]),
    }


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
