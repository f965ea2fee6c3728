"""Records from the gene counts of the kaempferol study, for training alone.

No record puts all figures together that a question of the KMP test rests on, so none gives a tested
fact away; the test's own questions are in no record.
"""

import random
from collections.abc import Iterator, Sequence

from evals.facts import DegCount, load_kmp
from evals.questions import is_held_out, kmp_test, kmp_training
from evals.questions.kmp.draft import degs, long
from evals.refiner.passages import Outline, Passage, item
from evals.schema import Example
from evals.schema.refining import RefinerRecord

ORIGIN = "gene counts of the kaempferol study"
DOCUMENT = "kmp-tables"
COUNTS, LIMITS = 18, 12
"""Records after a count, and after what the tables cannot tell."""
BESIDE = 2


def records(source: random.Random) -> Iterator[RefinerRecord]:
    """Yield the records in no particular order."""
    tested = [frozenset(row.support) for row in kmp_test() if row.support]
    asked = {
        example.support[0]: example
        for example in kmp_training()
        if example.ground_truth.kind == "count" and len(example.support) == 1
    }
    figures = {figure.id: figure for figure in load_kmp().counts}
    chosen = [name for name in sorted(asked) if name in figures and _is_free({name}, tested)]
    for name in source.sample(chosen, COUNTS):
        beside = _beside(source, [figures[name]], tested)
        yield _count(asked[name], figures[name], beside).record(source)
    limits = [
        example
        for example in kmp_training()
        if example.ground_truth.kind == "abstain" and not is_held_out(example.prompt)
    ]
    for example in source.sample(sorted(limits, key=lambda row: row.id), LIMITS):
        yield _limit(example, _beside(source, [], tested)).record(source)


def _beside(
    source: random.Random, given: Sequence[DegCount], tested: Sequence[frozenset[str]]
) -> list[DegCount]:
    """Return figures that can stand beside the given ones without giving a tested fact away."""
    found = [*given]
    for figure in source.sample(load_kmp().counts, len(load_kmp().counts)):
        names = {each.id for each in (*found, figure)}
        if len(names) > len(found) and _is_free(names, tested):
            found.append(figure)
        if len(found) == len(given) + BESIDE:
            break
    return found[len(given) :]


def _is_free(names: set[str], tested: Sequence[frozenset[str]]) -> bool:
    return not any(support <= names for support in tested)


def _count(example: Example, figure: DegCount, beside: Sequence[DegCount]) -> Outline:
    said = degs(figure.genes)
    others = "|".join(degs(each.genes).split()[0] for each in beside if each.genes != figure.genes)
    return Outline(
        id=f"refiner/{example.id}",
        question=example.prompt,
        reasoning="I searched the tables of gene counts by tissue and contrast.",
        passages=tuple(map(_passage, (figure, *beside))),
        answer=(((figure.id,), f"In {figure.tissue}, {long(figure.contrast)} gives {said}."),),
        wanted=(
            item("Count", f'Gives "{said.split()[0]}".'),
            item("Tissue", f'Names "{figure.tissue}".'),
        ),
        unwanted=(item("Another count", f'Gives a figure of something else, "{others}".'),),
        group="kmp",
        origin=ORIGIN,
    )


def _limit(example: Example, beside: Sequence[DegCount]) -> Outline:
    return Outline(
        id=f"refiner/{example.id}",
        question=example.prompt,
        reasoning="I searched the tables of the study for anything on this.",
        passages=tuple(map(_passage, beside)),
        answer=(
            ((), "The passages hold counts of changed genes, but not what this question asks for."),
        ),
        wanted=(item("Abstains", 'Says that the passages do "not" hold what is asked for.'),),
        unwanted=(item("Answers anyway", 'Answers "yes" or with a figure of its own.'),),
        group="kmp",
        origin=ORIGIN,
        answerable=False,
    )


def _passage(figure: DegCount) -> Passage:
    text = (
        f"Kaempferol study, mouse {figure.tissue}, {long(figure.contrast)}: {degs(figure.genes)}"
        " at adjusted p below 0.05."
    )
    return Passage(figure.id, DOCUMENT, text)
