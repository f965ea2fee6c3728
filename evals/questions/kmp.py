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
    others = (_cell(tissue, figure.contrast).genes for tissue in TISSUES)
    other = next(genes for genes in others if genes not in (figure.genes, 0))
    mistakes = [int(digits[1] + digits[0] + digits[2:]), other, figure.genes * 10]
    start = int(digest(figure.id)[:8], 16) % 3
    turned = (*mistakes[start:], *mistakes[:start])
    return next(genes for genes in turned if genes != figure.genes and genes >= LEAST_CORRUPTED)


# ---- what is trained on, in the order in which wordings are drawn ------------------------------


@cache
def _training_drafts() -> tuple[Draft, ...]:
    return (
        *_figures(),
        *_steps(),
        *_across_tissues(),
        *_corrections(),
        *(
            _filled("unknown", "LIMIT", AbstainTruth(), topic=topic, first=first, second=second, reason=reason)
            for topic, (first, second, reason) in book()["unknown"].items()
        ),
        *_whole("readings"),
    )


def _figures() -> Iterator[Draft]:
    for figure in load_kmp().counts:
        words = _words(figure)
        twice = " The same figure stands twice in the tables, so it may be a copy error." if figure.doubt else ""
        yield _filled("count", _level(figure), _count(figure), [figure.id], twice=twice, **words)
        for way, genes in (("up", figure.up), ("down", figure.down)):
            if genes is not None:
                subject = f"{way}regulated by {words['short']} in {figure.tissue}"
                truth = CountTruth(value=genes, subject=subject)
                yield _filled("split", "SECONDARY", truth, [f"{figure.id}/{way}"], way=way, part=degs(genes), **words)
    for tissue, contrast in book()["chosen"]["quoted"]:
        figure = _cell(tissue, contrast)
        yield _filled("quoted", _level(figure), _count(figure), [figure.id], **_words(figure))
    for row in load_kmp().tissues:
        words, doubt = _row_words(row), row.oxphos_stress_doubt
        for name, truth, fact in _labels(row):
            yield _filled(name, _class_level(row), truth, [fact], **words)
        for name, level in (("nes_stress", "NOT_SIGNIFICANT" if doubt else "TABLE"), ("nes_kaempferol", "TABLE")):
            said = f", {doubt}" if doubt else ""
            yield _filled(name, level, None, [f"kmp/{name}/{row.tissue}"], doubt=said, **words)


def _steps() -> Iterator[Draft]:
    """Yield what takes a step within one tissue: sums, shares, thresholds, one count against another."""
    for tissue in ("liver", "soleus"):
        hu, ir, both = figures = _cells(tissue, "HU", "IR", "HU_IR")
        total = hu.genes + ir.genes
        more, less = book()["wordings"]["more"], book()["wordings"]["less"]
        truth = _label(*((more, less) if both.genes > total else (less, more)), tissue)
        counts = {"hu": hu.genes, "ir": ir.genes, "both": both.genes, "total": total, "right": truth.value}
        yield _filled("additivity", _derived(*figures), truth, _ids(figures), tissue=tissue, **counts)
        strong, weak = sorted(figures[:2], key=lambda figure: -figure.genes)
        truth = _label(book()["wordings"][strong.contrast], book()["wordings"][weak.contrast], tissue)
        words = {"tissue": tissue, "right": truth.value, "more": degs(strong.genes), "less": weak.genes}
        yield _filled("dominant_stressor", _derived(hu, ir), truth, _ids((hu, ir)), **words)
    for tissue in ("heart", "hippocampus", "soleus"):
        calm, stressed = figures = _cells(tissue, "KMP_baseline", "KMP_in_HU_IR")
        names = book()["wordings"]["baseline"], book()["wordings"]["stress"]
        is_calm = calm.genes > stressed.genes
        low, high = sorted((calm.genes, stressed.genes))
        words = {"when": "at baseline" if is_calm else "under combined stress", "more": high, "less": degs(low)}
        truth = _label(*(names if is_calm else names[::-1]), tissue)
        yield _filled("baseline_or_stress", _derived(*figures), truth, _ids(figures), tissue=tissue, **words)
    for figure in load_kmp().counts:
        if figure.up is not None and figure.down is not None:
            way, other = ("up", "down") if figure.up > figure.down else ("down", "up")
            more, total = max(figure.up, figure.down), figure.up + figure.down
            truth = _label((way, f"{way}regulated"), (other, f"{other}regulated"), figure.tissue)
            words = {"way": way, "more": more, "total": total, "share": more / total, **_words(figure)}
            yield _filled("prevailing", "SECONDARY", truth, [f"{figure.id}/up", f"{figure.id}/down"], **words)
    for tissue, contrast, limit in book()["chosen"]["above"]:
        figure = _cell(tissue, contrast)
        truth, words = _yes_no(figure.genes > limit, figure)
        yield _filled("above", _derived(figure), truth, [figure.id], limit=limit, **words)
    for tissue, contrast, against in book()["chosen"]["outnumber"]:
        one, other = figures = _cells(tissue, contrast, against)
        truth, words = _yes_no(one.genes > other.genes, one)
        words |= {"one": one, "other": other, "first": words["short"], "second": contrast_name(against)[0]}
        yield _filled("outnumber", _derived(*figures), truth, _ids(figures), **words)


def _across_tissues() -> Iterator[Draft]:
    """Yield which of two tissues has more, which has most, and what else holds for it; nothing that is tested."""
    chosen = book()["chosen"]
    tested: dict[str, list[str]] = chosen["tested_extremes"]
    for contrast in book()["contrasts"]:
        for pair in combinations(TISSUES, 2):
            figures = [_cell(tissue, contrast) for tissue in pair]
            less, more = sorted(figures, key=lambda figure: figure.genes)
            is_tested = [contrast, *pair] in chosen["tested_pairs"] or set(tested.get(contrast, ())) & set(pair)
            if less.genes == more.genes or is_tested:
                continue
            words = _words(more) | {"first": pair[0], "second": pair[1], "more": more.genes, "less": less.genes}
            del words["tissue"]
            truth = _one_of(pair, more.tissue, contrast)
            yield _filled("order", _derived(*figures), truth, _ids(figures), **words)
    for contrast in book()["contrasts"]:
        genes = sorted(_cell(tissue, contrast).genes for tissue in TISSUES)
        for rank, is_single in (("largest", genes[-1] > genes[-2]), ("smallest", genes[0] < genes[1])):
            if is_single and contrast not in tested:
                yield from _extreme(rank, contrast)
    for rank, contrast, target in chosen["hops"]:
        figure, figures, words = _ranked(rank, contrast)
        asked = _cell(figure.tissue, target)
        words |= {"asked": asked, **{f"asked_{name}": word for name, word in _words(asked).items()}}
        support = (*_ids(figures), asked.id)
        yield _filled("count_hop", _derived(*figures, asked), _count(asked), support, **words)


def _extreme(rank: str, contrast: str) -> Iterator[Draft]:
    figure, figures, words = _ranked(rank, contrast)
    untold = {name: word for name, word in words.items() if name != "tissue"}
    truth = _one_of(TISSUES, figure.tissue, contrast)
    yield _filled("extreme", _derived(*figures), truth, _ids(figures), **untold)
    row = load_kmp().tissue(figure.tissue)
    level = min((_derived(*figures), _class_level(row)), key=book()["levels"].__getitem__)
    for name, label, fact in _labels(row):
        yield _filled(f"{name}_hop", level, label, (*_ids(figures), fact), row=row, **words)


def _ranked(rank: str, contrast: str) -> tuple[DegCount, list[DegCount], dict[str, Any]]:
    """Return the figure of that rank, all it was ranked against, and what templates say of it."""
    figures = [_cell(tissue, contrast) for tissue in TISSUES]
    figure = (max if rank == "largest" else min)(figures, key=lambda each: each.genes)
    which = f"the tissue with the {rank} DEG count for {contrast_name(contrast)[0]}"
    return figure, figures, {"rank": rank, "which": which, **_words(figure)}


def _corrections() -> Iterator[Draft]:
    """Yield questions that contain a mistake. The answer does not repeat it, and so never states two figures."""
    for figure in load_kmp().counts:
        if figure.genes >= LEAST_CORRUPTED and not figure.doubt:
            wrong = degs(wrong_figure(figure))
            yield _filled("wrong_count", _level(figure), _count(figure), [figure.id], wrong=wrong, **_words(figure))
    for row in load_kmp().tissues:
        for name, truth, fact in _labels(row):
            words = _row_words(row) | {"wrong": book()["mistaken"][truth.value]}
            yield _filled(f"wrong_{name}", _class_level(row), truth, [fact], **words)
    yield from _whole("corrections")


# ---- templates, levels and truths --------------------------------------------------------------


def _filled(name: str, level: str, truth: GroundTruth | None, support: Iterable[str] = (), **words: Any) -> Draft:
    form = book()["templates"][name]
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
        support=tuple(support),
        tissue=words.get("tissue"),
        take=form.get("take", 1),
    )


def _whole(section: str) -> list[Draft]:
    return [Draft.model_validate(row) for row in book()[section]]


def _words(figure: DegCount) -> dict[str, Any]:
    name, full = contrast_name(figure.contrast)
    return {
        "id": figure.id,
        "tissue": figure.tissue,
        "Tissue": figure.tissue.capitalize(),
        "contrast": figure.contrast,
        "short": name,
        "long": full,
        "genes": degs(figure.genes),
        "stated": f"In {figure.tissue}, {name} gives {degs(figure.genes)}.",
    }


def _row_words(row: TissueClass) -> dict[str, Any]:
    return {"tissue": row.tissue, "Tissue": row.tissue.capitalize(), "row": row}


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


def _cell(tissue: str, contrast: str) -> DegCount:
    return load_kmp().count(tissue, contrast)


def _cells(tissue: str, *contrasts: str) -> list[DegCount]:
    return [_cell(tissue, contrast) for contrast in contrasts]


def _ids(figures: Iterable[DegCount]) -> tuple[str, ...]:
    return tuple(figure.id for figure in figures)


def _level(figure: DegCount) -> str:
    """Return how sure an answer may be that repeats one figure."""
    return "DOUBTED" if figure.doubt else "TABLE"


def _derived(*figures: DegCount) -> str:
    """Return how sure an answer may be that puts figures together: no surer than the weakest."""
    return "DOUBTED" if any(figure.doubt for figure in figures) else "DERIVED"


def _class_level(row: TissueClass) -> str:
    """Return how sure an answer may be about a class or pattern; a doubt in its figures counts."""
    doubted = any(figure.doubt for figure in load_kmp().counts if figure.tissue == row.tissue)
    return "DOUBTED_CLASS" if (row.letter == "B" and doubted) or row.oxphos_stress_doubt else "TABLE"


def _subject(figure: DegCount) -> str:
    return f"{contrast_name(figure.contrast)[0]} in {figure.tissue}"


def _count(figure: DegCount) -> CountTruth:
    return CountTruth(value=figure.genes, subject=_subject(figure))


def _label(right: Sequence[str], wrong: Sequence[str], subject: str) -> LabelTruth:
    return LabelTruth(value=right[0], subject=subject, accept=tuple(right[1:]), others=tuple(wrong))


def _one_of(tissues: Iterable[str], right: str, subject: str) -> LabelTruth:
    return _label([right], [tissue for tissue in tissues if tissue != right], subject)


def _yes_no(is_so: bool, figure: DegCount) -> tuple[LabelTruth, dict[str, Any]]:
    """Return the truth of a yes/no question on a figure, and how the answer says it."""
    right, wrong = ("yes", "no") if is_so else ("no", "yes")
    words = {"yes": right.capitalize(), "side": "above" if is_so else "below", **_words(figure)}
    return _label([right], [wrong], _subject(figure)), words
