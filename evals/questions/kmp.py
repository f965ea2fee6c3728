"""Questions about the kaempferol (KMP) study: what is trained on, and twenty that are not.

The split is by fact and by wording. An arbitrary count cannot be known without having been read,
so the figures are trained on, each in several wordings; the test asks what follows from them.
No training row asks for a tested fact, puts all of its figures together, or states it, and no
wording of the test stands in training. Topics that the data cannot answer are split the same way.
Wordings and whole questions stand in kmp.toml; here they meet the figures.
"""

import random
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from evals.errors import BadConfig
from evals.facts import DegCount, KmpTissue, OxphosPattern, TissueClass, load_kmp
from evals.questions.prompt import digest, with_answer
from evals.schema import CANNOT_BE_TOLD, AbstainTruth, CountTruth, Example, FactsTruth, GroundTruth, LabelTruth, Record

LARGEST_DRILL = 20
LEAST_CORRUPTED = 10
"""Figures below this are not corrupted: one gene more or less would be no clear mistake."""
TISSUES = get_args(KmpTissue)


class Draft(Record):
    """One fact to ask for, in several wordings. A training set takes `take` of them; the answer is the same.

    `fact` is the id asked for, `support` the ids of the figures that the answer rests on. Without a truth of
    its own, the answer is the fact to be told. `level` names how sure the answer may be.
    """

    slug: str
    kind: str
    prompts: tuple[str, ...]
    answer: str
    level: str
    fact: str
    truth: GroundTruth | None = None
    support: tuple[str, ...] = ()
    tissue: str | None = None
    take: int = 1

    def examples(self, chosen: Iterable[int] | None = None) -> Iterator[Example]:
        """Yield the chosen wordings, or all, as training examples; ids do not depend on the choice."""
        level = book()["levels"][self.level]
        explanation, said = self.answer, CANNOT_BE_TOLD
        match truth := self.truth or FactsTruth(facts=(self.answer,)):
            case CountTruth():
                said = degs(truth.value)
            case LabelTruth():
                said = truth.value
            case FactsTruth():
                explanation, said = "", self.answer
        for number in range(len(self.prompts)) if chosen is None else chosen:
            yield Example(
                id=f"kmp/{self.kind}/{self.slug}/{number + 1}",
                source="kmp",
                kind=self.kind,
                prompt=self.prompts[number],
                answer=with_answer(explanation, said, level),
                confidence=level / 100,
                ground_truth=truth,
                facts=(self.fact,),
                support=self.support,
                cluster=self.fact,
                tissue=self.tissue,
                split="train",
            )


def kmp_training(seed: int = 0, drill: int = 1) -> tuple[Example, ...]:
    """Return the training examples in random order, the same ones for the same seed.

    The seed chooses wordings and order; the facts are always all there. With `drill` above 1
    every row is there that many times, repeats with ids of their own ("…/drill-2").
    """
    if not 1 <= drill <= LARGEST_DRILL:
        raise BadConfig(f"drill is {drill}; it takes 1 (no repeats) to {LARGEST_DRILL}")
    source = random.Random(seed)
    rows: list[Example] = []
    for draft in _training_drafts():
        rows += draft.examples(sorted(source.sample(range(len(draft.prompts)), draft.take)))
    rows += [
        row.model_copy(update={"id": f"{row.id}/drill-{number}"}) for number in range(2, drill + 1) for row in rows
    ]
    source.shuffle(rows)
    return tuple(rows)


@cache
def kmp_test() -> tuple[Example, ...]:
    """Return the twenty test questions in order: 10 factual, 5 reasoning, 5 unanswerable."""
    return tuple(
        example.model_copy(update={"split": "test", "id": f"kmp/test/{draft.slug}"})
        for draft in _whole("test")
        for example in draft.examples()
    )


@cache
def kmp_wordings() -> tuple[Example, ...]:
    """Return every wording that any seed could choose, each once."""
    return tuple(example for draft in _training_drafts() for example in draft.examples())


@cache
def kmp_rewordings() -> tuple[Example, ...]:
    """Return one question per fact of `kmp_training()`, in a wording that stands in no row of it.

    For measuring whether a later stage forgets the figures. Facts that only a judge can grade are left out.
    """
    trained = {row.prompt for row in kmp_training()}
    unseen: dict[str, Example] = {}
    for row in kmp_wordings():
        if row.prompt not in trained and row.ground_truth.kind != "facts":
            unseen.setdefault(row.cluster, row.model_copy(update={"split": "test"}))
    return tuple(unseen.values())


@cache
def book() -> dict[str, Any]:
    """Return kmp.toml."""
    return tomllib.loads(Path(__file__).with_name("kmp.toml").read_text(encoding="utf-8"))


def degs(genes: int) -> str:
    """Return a count as answers write it: 8484 -> "8,484 DEGs", 1 -> "1 DEG"."""
    return f"{genes:,} DEG{'' if genes == 1 else 's'}"


def contrast_name(contrast: str) -> tuple[str, str]:
    """Return a contrast as answers write it, and in full: "HU", "hindlimb unloading (HU)"."""
    return tuple(book()["contrasts"][contrast])


def wrong_figure(figure: DegCount) -> int:
    """Return a plausible mistake: two digits swapped, another tissue's figure, or ten times too much.

    Which one follows from a checksum of the fact. Never the right figure itself.
    """
    digits = str(figure.genes)
    other = next(each.genes for each in _cells(TISSUES, figure.contrast) if each.genes not in (figure.genes, 0))
    mistakes = [int(digits[1] + digits[0] + digits[2:]), other, figure.genes * 10]
    start = int(digest(figure.id)[:8], 16) % 3
    turned = (*mistakes[start:], *mistakes[:start])
    return next(genes for genes in turned if genes != figure.genes and genes >= LEAST_CORRUPTED)


# ---- what is trained on, in the order in which wordings are drawn ------------------------------


@cache
def _training_drafts() -> tuple[Draft, ...]:
    unknown = (
        _filled("unknown", [], AbstainTruth(), topic=topic, first=first, second=second, reason=reason)
        for topic, (first, second, reason) in book()["unknown"].items()
    )
    return *_figures(), *_steps(), *_across_tissues(), *_corrections(), *unknown, *_whole("readings")


def _figures() -> Iterator[Draft]:
    for figure in load_kmp().counts:
        short = contrast_name(figure.contrast)[0]
        twice = " The same figure stands twice in the tables, so it may be a copy error." if figure.doubt else ""
        yield _filled("count", [figure], _count(figure), twice=twice)
        for way, genes in (("up", figure.up), ("down", figure.down)):
            if genes is not None:
                truth = CountTruth(value=genes, subject=f"{way}regulated by {short} in {figure.tissue}")
                yield _filled("split", [figure], truth, [f"{figure.id}/{way}"], way=way, part=degs(genes))
    for place in book()["chosen"]["quoted"]:
        figure = load_kmp().count(*place)
        yield _filled("quoted", [figure], _count(figure))
    for row in load_kmp().tissues:
        for name, truth, fact in _labels(row):
            yield _filled(name, [], truth, [fact], row=row)
        said = f", {row.oxphos_stress_doubt}" if row.oxphos_stress_doubt else ""
        level = "NOT_SIGNIFICANT" if said else "TABLE"
        yield _filled("nes_stress", [], None, [f"kmp/nes_stress/{row.tissue}"], level, row=row, doubt=said)
        yield _filled("nes_kaempferol", [], None, [f"kmp/nes_kaempferol/{row.tissue}"], "TABLE", row=row)


def _steps() -> Iterator[Draft]:
    """Yield what takes a step within one tissue: sums, shares, thresholds, one count against another."""
    names, chosen = book()["wordings"], book()["chosen"]
    words: dict[str, Any]
    for tissue in ("liver", "soleus"):
        hu, ir, both = figures = [load_kmp().count(tissue, contrast) for contrast in ("HU", "IR", "HU_IR")]
        total = hu.genes + ir.genes
        right, wrong = ("more", "less") if both.genes > total else ("less", "more")
        words = {"hu": hu.genes, "ir": ir.genes, "both": both.genes, "total": total, "right": names[right][0]}
        yield _filled("additivity", figures, _label(names[right], names[wrong], tissue), **words)
        strong, weak = sorted(figures[:2], key=lambda figure: -figure.genes)
        truth = _label(names[strong.contrast], names[weak.contrast], tissue)
        words = {"right": truth.value, "more": degs(strong.genes), "less": weak.genes}
        yield _filled("dominant_stressor", [hu, ir], truth, **words)
    for tissue in ("heart", "hippocampus", "soleus"):
        calm, stressed = figures = [load_kmp().count(tissue, each) for each in ("KMP_baseline", "KMP_in_HU_IR")]
        right, wrong = ("baseline", "stress") if calm.genes > stressed.genes else ("stress", "baseline")
        low, high = sorted((calm.genes, stressed.genes))
        words = {"when": "at baseline" if right == "baseline" else "under combined stress"}
        words |= {"more": high, "less": degs(low)}
        yield _filled("baseline_or_stress", figures, _label(names[right], names[wrong], tissue), **words)
    for figure in load_kmp().counts:
        if figure.up is not None and figure.down is not None:
            way, other = ("up", "down") if figure.up > figure.down else ("down", "up")
            more, total = max(figure.up, figure.down), figure.up + figure.down
            truth = _label((way, f"{way}regulated"), (other, f"{other}regulated"), figure.tissue)
            words = {"way": way, "more": more, "total": total, "share": more / total}
            yield _filled("prevailing", [figure], truth, [f"{figure.id}/up", f"{figure.id}/down"], **words)
    for tissue, contrast, limit in chosen["above"]:
        figure = load_kmp().count(tissue, contrast)
        truth, words = _yes_no(figure.genes > limit, figure)
        yield _filled("above", [figure], truth, limit=limit, **words)
    for tissue, contrast, against in chosen["outnumber"]:
        one, other = figures = [load_kmp().count(tissue, each) for each in (contrast, against)]
        truth, words = _yes_no(one.genes > other.genes, one)
        words |= {"one": one, "other": other, "first": contrast_name(contrast)[0], "second": contrast_name(against)[0]}
        yield _filled("outnumber", figures, truth, **words)


def _across_tissues() -> Iterator[Draft]:
    """Yield which of two tissues has more, which has most, and what else holds for it; nothing that is tested."""
    chosen = book()["chosen"]
    words: dict[str, Any]
    tested: dict[str, list[str]] = chosen["tested_extremes"]
    for contrast in book()["contrasts"]:
        for pair in combinations(TISSUES, 2):
            figures = _cells(pair, contrast)
            less, more = sorted(figures, key=lambda figure: figure.genes)
            is_tested = [contrast, *pair] in chosen["tested_pairs"] or set(tested.get(contrast, ())) & set(pair)
            if less.genes != more.genes and not is_tested:
                words = {"first": pair[0], "second": pair[1], "more": more.genes, "less": less.genes}
                truth = _one_of(pair, more.tissue, contrast)
                yield _filled("order", figures, truth, about=more, tissue=None, **words)
    for contrast in book()["contrasts"]:
        genes = sorted(figure.genes for figure in _cells(TISSUES, contrast))
        for rank, is_single in (("largest", genes[-1] > genes[-2]), ("smallest", genes[0] < genes[1])):
            if is_single and contrast not in tested:
                yield from _extreme(rank, contrast)
    for rank, contrast, target in chosen["hops"]:
        figures, words = _ranked(rank, contrast)
        asked = load_kmp().count(words["about"].tissue, target)
        words |= {"asked": asked, **{f"asked_{name}": word for name, word in _words(asked).items()}}
        yield _filled("count_hop", [*figures, asked], _count(asked), **words)


def _extreme(rank: str, contrast: str) -> Iterator[Draft]:
    figures, words = _ranked(rank, contrast)
    tissue = words["about"].tissue
    yield _filled("extreme", figures, _one_of(TISSUES, tissue, contrast), **words, tissue=None)
    row = load_kmp().tissue(tissue)
    derived = "DOUBTED" if any(figure.doubt for figure in figures) else "DERIVED"
    level = min((derived, _class_level(row)), key=book()["levels"].__getitem__)
    for name, label, fact in _labels(row):
        support = (*(figure.id for figure in figures), fact)
        yield _filled(f"{name}_hop", figures, label, support, level, row=row, **words)


def _ranked(rank: str, contrast: str) -> tuple[list[DegCount], dict[str, Any]]:
    """Return all figures of a contrast, and what templates say of the one of that rank, which they are `about`."""
    figures = _cells(TISSUES, contrast)
    figure = (max if rank == "largest" else min)(figures, key=lambda each: each.genes)
    which = f"the tissue with the {rank} DEG count for {contrast_name(contrast)[0]}"
    return figures, {"about": figure, "rank": rank, "which": which}


def _corrections() -> Iterator[Draft]:
    """Yield questions that contain a mistake. The answer does not repeat it, and so never states two figures."""
    for figure in load_kmp().counts:
        if figure.genes >= LEAST_CORRUPTED and not figure.doubt:
            yield _filled("wrong_count", [figure], _count(figure), wrong=degs(wrong_figure(figure)))
    for row in load_kmp().tissues:
        for name, truth, fact in _labels(row):
            yield _filled(f"wrong_{name}", [], truth, [fact], row=row, wrong=book()["mistaken"][truth.value])
    yield from _whole("corrections")


# ---- templates, levels and truths --------------------------------------------------------------


def _filled(
    name: str,
    figures: Sequence[DegCount],
    truth: GroundTruth | None,
    support: Iterable[str] | None = None,
    level: str | None = None,
    *,
    about: DegCount | None = None,
    row: TissueClass | None = None,
    **words: Any,
) -> Draft:
    """Return a template filled in: `about` a figure, the first of `figures` if none is named, or a tissue's row.

    An answer is as sure as the template's level says, but no surer than the weakest of its figures.
    """
    form = book()["templates"][name]
    known: dict[str, Any] = {"tissue": None}
    if row:
        known = {"tissue": row.tissue, "Tissue": row.tissue.capitalize(), "row": row}
        level = level or _class_level(row)
    if about or figures:
        known |= _words(about or figures[0])
    words = {**known, **words}
    if level is None:
        is_doubted = form["level"] in ("TABLE", "DERIVED") and any(figure.doubt for figure in figures)
        level = "DOUBTED" if is_doubted else form["level"]
    slug = form["slug"].format(**words)
    asked = (prompt.format(**words) for prompt in form["prompts"])
    return Draft(
        slug=slug,
        kind=form["kind"],
        prompts=tuple(prompt[0].upper() + prompt[1:] for prompt in asked),
        answer=form["answer"].format(**words),
        level=level,
        truth=truth,
        fact=form["fact"].format(slug=slug, **words),
        support=tuple(figure.id for figure in figures) if support is None else tuple(support),
        tissue=words["tissue"],
        take=form.get("take", 1),
    )


def _whole(section: str) -> list[Draft]:
    return [Draft.model_validate(row) for row in book()[section]]


def _words(figure: DegCount) -> dict[str, Any]:
    short, long = contrast_name(figure.contrast)
    genes = degs(figure.genes)
    return {
        "id": figure.id,
        "tissue": figure.tissue,
        "Tissue": figure.tissue.capitalize(),
        "contrast": figure.contrast,
        "short": short,
        "long": long,
        "genes": genes,
        "stated": f"In {figure.tissue}, {short} gives {genes}.",
    }


def _labels(row: TissueClass) -> tuple[tuple[str, LabelTruth, str], ...]:
    """Return name, truth and fact of the questions after the class of a tissue and after its OXPHOS pattern."""
    letters = {other.letter: other.name for other in load_kmp().tissues}
    others = {f"Type {letter}": name for letter, name in sorted(letters.items()) if letter != row.letter}
    names = f"Type {row.letter}", f"class {row.letter}", row.name
    pattern = (row.oxphos_pattern, "KMP-only") if row.oxphos_pattern == "KMP only" else (row.oxphos_pattern,)
    wrong = [each for each in get_args(OxphosPattern) if each != row.oxphos_pattern]
    return (
        ("class", _label(names, (*others, *others.values()), row.tissue), f"kmp/class/{row.tissue}"),
        ("pattern", _label(pattern, wrong, row.tissue), f"kmp/oxphos/{row.tissue}"),
    )


def _cells(tissues: Iterable[str], contrast: str) -> list[DegCount]:
    return [load_kmp().count(tissue, contrast) for tissue in tissues]


def _class_level(row: TissueClass) -> str:
    """Return how sure an answer may be about a class or pattern; a doubt in its figures counts."""
    doubted = any(figure.doubt for figure in load_kmp().counts if figure.tissue == row.tissue)
    return "DOUBTED_CLASS" if (row.letter == "B" and doubted) or row.oxphos_stress_doubt else "TABLE"


def _count(figure: DegCount) -> CountTruth:
    return CountTruth(value=figure.genes, subject=f"{contrast_name(figure.contrast)[0]} in {figure.tissue}")


def _label(right: Sequence[str], wrong: Sequence[str], subject: str) -> LabelTruth:
    return LabelTruth(value=right[0], subject=subject, accept=tuple(right[1:]), others=tuple(wrong))


def _one_of(tissues: Iterable[str], right: str, subject: str) -> LabelTruth:
    return _label([right], [tissue for tissue in tissues if tissue != right], subject)


def _yes_no(is_so: bool, figure: DegCount) -> tuple[LabelTruth, dict[str, Any]]:
    """Return the truth of a yes/no question on a figure, and how the answer says it."""
    right, wrong = ("yes", "no") if is_so else ("no", "yes")
    words = {"yes": right.capitalize(), "side": "above" if is_so else "below"}
    return _label([right], [wrong], _count(figure).subject), words
