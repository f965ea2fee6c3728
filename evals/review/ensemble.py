"""Several tools' concerns on the same papers as one list, with who said what kept.

Concerns of different tools that say the same become one, in the words nearest to all of them (of two tools:
the one named first). Union keeps all, vote those that enough tools say, intersection those that all say. The
best supported stand first, then the more severe, then what stood earlier in its list; the cap comes last.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evals.errors import BadConfig
from evals.io import read_rows
from evals.review.clean import category_of, concerns_in, severity_of
from evals.review.match import (
    Block,
    Encoder,
    ReadyVectors,
    Threshold,
    calibrate_threshold,
    lists_of,
    panel_of,
    similarity_of,
)
from evals.schema.record import Record
from evals.schema.reviews import SEVERITIES, UNKNOWN, Concern, Linkage, PredictionRow, ReferenceRow, Strategy


def clusters_of(alike: Block, tools: Sequence[int], threshold: float, linkage: Linkage) -> list[list[int]]:
    """Return groups of concerns by their places, each in order; every concern is in one group.

    `alike` (concerns, concerns) are similarities, `tools` (concerns,) says whose each concern is.
    """
    limit = alike.dtype.type(threshold)
    clusters = [[place] for place in range(len(tools))]
    alike_pairs = (
        (-float(alike[i, j]), i, j)
        for i, j in combinations(range(len(tools)), 2)
        if tools[i] != tools[j] and alike[i, j] >= limit
    )
    for _, i, j in sorted(alike_pairs):
        one, other = (next(each for each in clusters if place in each) for place in (i, j))
        has_same_tool = not {tools[k] for k in one}.isdisjoint(tools[k] for k in other)
        is_alike = linkage == "single" or (not has_same_tool and bool((alike[np.ix_(one, other)] >= limit).all()))
        if one is not other and is_alike:
            one += other
            clusters.remove(other)
    return sorted(sorted(each) for each in clusters)


FALSE_MERGE_RATE = 0.01
SEVERITY_RANK = {name: rank for rank, name in enumerate((*SEVERITIES, UNKNOWN))}
Label = TypeVar("Label", bound=str)


@dataclass(frozen=True)
class Tool:
    """A tool's name and its rows."""

    name: str
    rows: tuple[PredictionRow, ...]


@dataclass(frozen=True)
class Merging:
    """How lists are merged; `min_votes` counts for the strategy vote."""

    strategy: Strategy
    threshold: float
    linkage: Linkage = "complete"
    min_votes: int = 2
    cap: int | None = None

    def votes_of(self, n_tools: int) -> int:
        """Return how many tools must say a concern."""
        return {"union": 1, "vote": self.min_votes, "intersection": n_tools}[self.strategy]


class VectorRow(Record):
    """A text and its vector."""

    text: str
    vector: tuple[float, ...]


def read_vectors(path: Path) -> ReadyVectors:
    """Return the vectors of a file."""
    rows = read_rows(path, VectorRow, key=lambda row: row.text)
    lengths = {len(row.vector) for row in rows}
    if len(lengths) > 1:
        raise BadConfig(f"the vectors in {path} have {sorted(lengths)} numbers; all of one encoder have as many")
    return ReadyVectors(f"vectors of {path.name}", {row.text: row.vector for row in rows})


@dataclass(frozen=True)
class _Said:
    tool: int
    place: int
    concern: Concern
    depth: float


Document = dict[str, Any]


def merge(tools: Sequence[Tool], merging: Merging, encoder: Encoder | None) -> tuple[list[Document], Document]:
    """Return the merged rows, one per article that any tool answered, and what became of the concerns that went in.

    A row has `concerns`, best supported first, and what the cap `removed`: each in the words of one tool, with its
    `support`, the `sources` that say as much, and the `origins` with tool, place in that tool's list and words there.
    `encoder` None compares words. BadConfig for fewer than two tools, names that repeat, or more votes than tools.
    """
    names = [tool.name for tool in tools]
    if len(tools) < 2 or len(set(names)) < len(names):
        raise BadConfig(f"an ensemble needs two files or more with names of their own, found {', '.join(names)}")
    if merging.votes_of(len(tools)) > len(tools):
        raise BadConfig(
            f"--min-votes {merging.min_votes} is more than the {len(tools)} tools; give {len(tools)} or less"
        )
    articles = list(dict.fromkeys(row.article_id for tool in tools for row in tool.rows))
    said = _concerns_by_article(tools, articles)
    lists = lists_of([[(each.concern.text, UNKNOWN, UNKNOWN, each.place) for each in row] for row in said])
    similarity = similarity_of(lists, lists, encoder)
    rows: list[Document] = []
    counts: Counter[str] = Counter()
    for number, (article, listed) in enumerate(zip(articles, said, strict=True)):
        alike = similarity.block(number, number)
        groups = clusters_of(alike, [each.tool for each in listed], merging.threshold, merging.linkage)
        merged = [_merge_group(listed, group, alike, names) for group in groups]
        kept = [each for each in merged if each[0]["support"] >= merging.votes_of(len(names))]
        kept.sort(key=lambda each: (-each[0]["support"], SEVERITY_RANK[each[0]["severity"]], each[1]))
        concerns = [concern for concern, _ in kept]
        cap = len(concerns) if merging.cap is None else merging.cap
        rows.append({"article_id": article, "concerns": concerns[:cap], "removed": concerns[cap:]})
        counts += Counter(clusters=len(groups), outvoted=len(merged) - len(kept))
    given = {tool.name: sum(each.tool == place for row in said for each in row) for place, tool in enumerate(tools)}
    return rows, {
        "n_given": given,
        "n_clusters": counts["clusters"],
        "n_fused": sum(given.values()) - counts["clusters"],
        "n_kept": sum(len(row["concerns"]) for row in rows),
        "n_outvoted": counts["outvoted"],
        "n_over_cap": sum(len(row["removed"]) for row in rows),
        "n_empty": sum(not row["concerns"] for row in rows),
    }


def merging_threshold(tools: Sequence[Tool], encoder: Encoder | None, seed: int) -> Threshold:
    """Return the similarity that `FALSE_MERGE_RATE` of a tool's concerns reach on another paper by chance."""
    longest = max(tools, key=lambda tool: sum(len(row.concerns) for row in tool.rows))
    texts = {
        row.article_id: [each.text for each in concerns_in(row) if (each.text or "").strip()] for row in longest.rows
    }
    rows = [{"article_id": name, "concerns": [{"text": text} for text in said]} for name, said in texts.items()]
    panel = panel_of(list(map(ReferenceRow.model_validate, rows)), [])
    return calibrate_threshold(panel, encoder, FALSE_MERGE_RATE, seed)


def _concerns_by_article(tools: Sequence[Tool], articles: Sequence[str]) -> list[list[_Said]]:
    """Return what all tools say on each article, tool by tool, blanks left out."""
    listed: dict[str, list[_Said]] = {name: [] for name in articles}
    for number, tool in enumerate(tools):
        for row in tool.rows:
            given = concerns_in(row)
            for place, each in enumerate(given):
                text = (each.text or "").strip()
                if text:
                    labels = {"category": category_of(each.category), "severity": severity_of(each.severity)}
                    concern = Concern.model_validate({"text": text, **labels})
                    listed[row.article_id].append(_Said(number, place, concern, place / len(given)))
    return [listed[name] for name in articles]


def _merge_group(
    listed: Sequence[_Said], group: Sequence[int], alike: Block, names: Sequence[str]
) -> tuple[Document, tuple[float, int]]:
    """Return a group as one concern, and where it stood: mean depth in its lists, then first place."""
    members = [listed[place] for place in group]
    nearest = alike[np.ix_(group, group)].sum(axis=1).round(6)
    chosen = listed[group[int(nearest.argmax())]].concern  # of two equally near to all, the one that stands first
    sources = [names[tool] for tool in sorted({each.tool for each in members})]
    concern = {
        "text": chosen.text,
        "category": _usual([each.concern.category for each in members], chosen.category),
        "severity": _usual([each.concern.severity for each in members], chosen.severity),
        "support": len(sources),
        "sources": sources,
        "origins": [{"tool": names[each.tool], "index": each.place, "text": each.concern.text} for each in members],
    }
    return concern, (sum(each.depth for each in members) / len(members), group[0])


def _usual(labels: Sequence[Label], chosen: Label) -> Label:
    """Return the label most members have, of several such the chosen member's, else the first."""
    known = Counter(label for label in labels if label != UNKNOWN)
    return max(known, key=lambda label: (known[label], label == chosen), default=chosen)
