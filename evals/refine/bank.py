"""Records made from the study figures and from invented studies; and answers that take no model, to hold a stage against."""

import json
import random
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from evals.facts import DegCount, EnrichmentRow, load_hallmark, load_kmp
from evals.questions import is_held_out, kmp_test, kmp_training
from evals.questions.kmp import contrast_name, degs
from evals.questions.pathways import HELD_OUT, all_votes, comma_list, mission_name, pathway_heldout, pathway_training
from evals.refine.grammar import content, evidence_of
from evals.schema.refiner import BehaviourItem, RefinerRecord

VERSION = "1"
"""Of the records: goes up whenever the same command would write other rows."""
DATASETS = ("refiner-train", "refiner-test")
WAY = {"UP": "up", "DOWN": "down"}
MOST = {"train": (36, 16, 14), "test": (24, 9, 8)}
"""Records about a direction, about a disagreement, and without an answer."""
BESIDE = 2
"""Passages beside those that a question is about."""
COUNTS, LIMITS = 18, 12
"""Records after a count, and after what the tables cannot tell."""
Split = Literal["train", "test"]
Passages = Mapping[str, tuple[str, str]]
"""Document and text of passages, by what each is called while its record is made."""


class Bank(NamedTuple):
    """The records of both splits."""

    train: tuple[RefinerRecord, ...]
    test: tuple[RefinerRecord, ...]


@cache
def refiner_bank(seed: int = 0) -> Bank:
    """Return all records; the seed chooses distractors, order of passages and order of the rows."""
    source = random.Random(seed)
    train = [*_score_records(source, "train"), *_count_records(source), *_study_records(source, "train")]
    test = [*_score_records(source, "test"), *_study_records(source, "test")]
    return Bank(tuple(source.sample(train, len(train))), tuple(source.sample(test, len(test))))


def ids_for_testing(records: Iterable[RefinerRecord]) -> list[str]:
    """Return the ids of those records that are kept for testing, here or by the standard hold-out."""
    known = {record.id for record in refiner_bank().test}
    return [each.id for each in records if each.id in known or is_held_out(each.asked, each.id)]


def _score_records(source: random.Random, split: Split) -> Iterator[RefinerRecord]:
    """Yield records on the direction of a gene set, on missions that disagree, and without an answer."""
    bank = pathway_training() if split == "train" else pathway_heldout()
    votes = [v for v in all_votes() if (v.tissue in HELD_OUT) == (split == "test")]
    by_cluster = {vote.cluster: vote for vote in votes}
    asked = [(row, load_hallmark()[row.cluster.partition("/")[2]].name) for row in bank if "/HALLMARK_" in row.cluster]
    # a reader of words takes a gene set that is called "up" or "down" itself for an answer
    clear = [row for row, name in asked if not content(name) & {"up", "down"}]
    forms = (("direction", "direct"), ("disagreement", "uncertainty"), ("without", "direct"))
    for (form, kind), most in zip(forms, MOST[split], strict=True):
        found = [row for row in clear if row.kind == kind]
        for example in source.sample(found, min(most, len(found))):
            vote = by_cluster[example.cluster]
            others = [v for v in votes if v.tissue == vote.tissue and v.pathway != vote.pathway]
            beside = [source.choice(each.rows) for each in source.sample(others, BESIDE)]
            rows = {way: [row for row in vote.rows if row.direction == way] for way in WAY}
            names = {way: [mission_name(row.mission) for row in shown] for way, shown in rows.items()}
            told = {way: comma_list(found) if found else "" for way, found in names.items()}
            way = vote.consensus or "UP"
            shown = {"direction": rows[way], "disagreement": [*rows["UP"], *rows["DOWN"]], "without": []}[form]
            words = {
                "name": load_hallmark()[vote.pathway].name,
                "tissue": vote.tissue,
                "way": WAY[way],
                "other": "down" if way == "UP" else "up",
                "missions": told[way],
                "up": told["UP"],
                "down": told["DOWN"],
                "any": "|".join(names[way]),
                "any_up": "|".join(names["UP"]),
                "any_down": "|".join(names["DOWN"]),
            }
            passages = dict(map(_score_passage, (*(() if form == "without" else vote.rows), *beside)))
            ends = "/without" if form == "without" else ""
            made = _fill_form(form, words) | {"id": f"{example.id}{ends}", "question": example.prompt}
            yield _record(
                source, made, f"genelab/{example.tissue}", passages, [_score_passage(row)[0] for row in shown]
            )


def _score_passage(row: EnrichmentRow) -> tuple[str, tuple[str, str]]:
    p = "no adjusted p" if row.padj is None else f"adjusted p {row.padj:.3g}"
    way = f"it is {WAY[row.direction]} in flight" if row.direction else "no significant change"
    text = (
        f"{mission_name(row.mission)} ({row.accession}), mouse {row.tissue}, gene set"
        f" {load_hallmark()[row.pathway].name}: NES {row.nes:.2f}, {p}, {way}."
    )
    return f"{row.tissue}/{row.mission}/{row.pathway}", (row.accession, text)


def _count_records(source: random.Random) -> Iterator[RefinerRecord]:
    """Yield records after a count, and after what the tables cannot tell, in no particular order."""
    tested = [frozenset(row.support) for row in kmp_test() if row.support]
    trained = kmp_training()
    asked = {row.support[0]: row for row in trained if row.ground_truth.kind == "count" and len(row.support) == 1}
    figures = {figure.id: figure for figure in load_kmp().counts}
    chosen = [name for name in sorted(asked) if name in figures and not any(support <= {name} for support in tested)]
    for name in source.sample(chosen, COUNTS):
        example, figure = asked[name], figures[name]
        beside = _figures_beside(source, [figure], tested)
        others = "|".join(degs(each.genes).split()[0] for each in beside if each.genes != figure.genes)
        said, contrast = degs(figure.genes), contrast_name(figure.contrast)[1]
        words = {"tissue": figure.tissue, "contrast": contrast, "said": said, "number": said.split()[0]}
        words["others"] = others
        made = _fill_form("count", words) | {"id": example.id, "question": example.prompt}
        yield _record(source, made, "kmp", _count_passages(figure, *beside), [figure.id])
    limits = [row for row in trained if row.ground_truth.kind == "abstain" and not is_held_out(row.prompt)]
    for example in source.sample(sorted(limits, key=lambda row: row.id), LIMITS):
        made = _fill_form("limit", {}) | {"id": example.id, "question": example.prompt}
        yield _record(source, made, "kmp", _count_passages(*_figures_beside(source, [], tested)), [])


def _figures_beside(
    source: random.Random, given: Sequence[DegCount], tested: Sequence[frozenset[str]]
) -> list[DegCount]:
    """Return figures that can stand beside the given ones without giving a tested fact away."""
    found = [*given]
    for figure in source.sample(load_kmp().counts, len(load_kmp().counts)):
        names = {each.id for each in (*found, figure)}
        if len(names) > len(found) and not any(support <= names for support in tested):
            found.append(figure)
        if len(found) == len(given) + BESIDE:
            break
    return found[len(given) :]


def _count_passages(*figures: DegCount) -> Passages:
    text = "Kaempferol study, mouse {}, {}: {} at adjusted p below 0.05."
    said = {each.id: text.format(each.tissue, contrast_name(each.contrast)[1], degs(each.genes)) for each in figures}
    return {name: ("kmp-tables", told) for name, told in said.items()}


def _study_records(source: random.Random, split: Split) -> Iterator[RefinerRecord]:
    """Yield the records of one split: three questions with an answer and one without, per study."""
    for study in json.loads(files("evals.refine").joinpath("written.json").read_text(encoding="utf-8")):
        passages = {key: (study["study"], text) for key, text in study["passages"].items()}
        for number, question in enumerate(study["questions"] if study["split"] == split else (), start=1):
            made = _forms()["study"] | question | {"id": f"{study['study']}/{number}"}
            yield _record(source, made, study["study"], passages)


@cache
def _forms() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("evals.refine").joinpath("forms.toml").read_text(encoding="utf-8"))


def _fill_form(name: str, words: Mapping[str, str]) -> dict[str, Any]:

    def fill(value: Any) -> Any:
        if isinstance(value, list):
            return [fill(each) for each in value]
        return value.format(**words) if isinstance(value, str) else value

    return {key: fill(value) for key, value in _forms()[name].items()}


def _record(
    source: random.Random, made: Mapping[str, Any], group: str, passages: Passages, cited: Sequence[str] = ()
) -> RefinerRecord:
    """Return a record, its passages in random order; `answer` is one claim, or pairs of a passage's key and a claim."""
    order = source.sample(list(passages), len(passages))
    ids = {key: f"S{place}" for place, key in enumerate(order, start=1)}
    answer = made["answer"]
    claims = [(cited, answer)] if isinstance(answer, str) else [([key] if key else [], text) for key, text in answer]
    said = (
        f"<snippet id={','.join(sorted(ids[key] for key in keys))}>{text}</snippet>" if keys else text
        for keys, text in claims
    )
    wanted, unwanted = (
        tuple(BehaviourItem(title=title, description=text) for title, text in made[key])
        for key in ("wanted", "unwanted")
    )
    return RefinerRecord(
        id=f"refiner/{made['id']}",
        prompt=made["question"],
        agent_reasoning=made["reasoning"],
        tool_output="\n".join(f"<snippet id={ids[key]}>{passages[key][1]}</snippet>" for key in order),
        positive_rubrics=wanted,
        negative_rubrics=unwanted,
        answerable=made.get("answerable", True),
        sources={ids[key]: passages[key][0] for key in order},
        split_group=group,
        reference=f"<answer>{' '.join(said)}</answer>",
        origin=made["origin"],
    )


# ---- answers that take no model ----------------------------------------------------------------

ABSTAINING = "<answer>The passages do not hold the answer.</answer>"


def _first_passage(record: RefinerRecord) -> str:
    """Return the first passage as it is, with its id: perfect citations, whatever was asked."""
    first = next(iter(evidence_of(record.tool_output).items()), None)
    return f"<answer><snippet id={first[0]}>{first[1]}</snippet></answer>" if first else ABSTAINING


BASELINES: Mapping[str, Callable[[RefinerRecord], str]] = {
    "silent": lambda _: "<answer></answer>",
    "always abstains": lambda _: ABSTAINING,
    "pastes the first passage": _first_passage,
    "reference": lambda record: record.reference or "<answer></answer>",
}
