"""Judge which way a gene set goes in a tissue (kinds direct and mechanism)."""

from collections.abc import Sequence

from evals.schema import DirectTruth, MechanismTruth
from evals.verifiers.agreement import agreements, is_on
from evals.verifiers.cues import PLACES
from evals.verifiers.direction import statements
from evals.verifiers.finding import Finding, direction_claims
from evals.verifiers.meaning import explains
from evals.verifiers.names import readable, same_pathway, same_tissue
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.statement import Statement

GOES_ON = frozenset(
    ("it", "its", "this", "that", "these", "those", "they", "their", "such", "here")
)
"""A sentence that opens with one of these goes on about the gene set spoken of before."""


def judge_direct(truth: DirectTruth | MechanismTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the direction that an answer gives.

    Statements about the tissue as a whole decide; those about single missions only where there is
    none, and then only if they all agree.
    """
    found = statements(reading)
    claims = direction_claims(reading, found, truth.tissue, truth.pathway)
    ours = [stated for stated in found if is_about(stated, truth.pathway, truth.tissue)]
    name = f"{readable(truth.pathway)} in {truth.tissue}"
    if not ours:
        differs = any(
            a.says == "DIFFER"
            and a.axis in ("missions", None)
            and is_on(a, truth.pathway, truth.tissue)
            for a in agreements(reading)
        )
        if differs:
            return Finding(
                "incorrect", f"says that missions differ; {name} is {truth.direction}", claims
            )
        elsewhere = f", only {claims[0].subject}" if claims else ""
        return Finding("no_claim", f"no direction stated for {name}{elsewhere}", claims)
    general = [stated for stated in ours if not stated.missions]
    if not general and len({stated.says for stated in ours}) > 1:
        return Finding(
            "incorrect", f"says that missions differ; {name} is {truth.direction}", claims
        )
    finding = settle(general or ours, truth.direction, name)
    return finding._replace(claims=claims)


def judge_mechanism(truth: MechanismTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the direction, if the answer says more about it than the question did.

    The question names the direction, so a correct answer must tell what the gene set stands for
    (`evals.verifiers.meaning`). It counts only in a sentence that states the direction, or that goes
    on about it: a later one that names the gene set or the tissue, opens with "it", "these", …, or
    follows a semicolon. Words of the question tell nothing.
    """
    finding = judge_direct(truth, reading, question)
    if finding.verdict != "correct":
        return finding
    if not explains(truth.pathway, reading, _told(truth, reading), question):
        return Finding("no_claim", "does not tell what the gene set stands for", finding.claims)
    return finding


def _told(truth: MechanismTruth, reading: Reading) -> list[Sentence]:
    """Return the sentences about the gene set, from its direction on."""
    stated = [s.first for s in statements(reading) if is_about(s, truth.pathway, truth.tissue)]
    told: list[Sentence] = []
    has_begun = is_about_it = False
    for sentence in reading.sentences:
        states = any(sentence.first <= token <= sentence.last for token in stated)
        is_same = is_about_it and ";" in reading.gaps[sentence.first]
        is_about_it = states or is_same or (has_begun and _goes_on(sentence, reading, truth))
        has_begun = has_begun or states
        if is_about_it:
            told.append(sentence)
    return told


def _goes_on(sentence: Sentence, reading: Reading, truth: MechanismTruth) -> bool:
    if reading.words[sentence.first] in GOES_ON:
        return True
    return bool(sentence.cues & PLACES) and any(
        (mark.kind == "pathway" and same_pathway(mark.value, truth.pathway))
        or (mark.kind == "tissue" and same_tissue(mark.value, truth.tissue))
        for mark in sentence.marks
    )


def is_about(stated: Statement, pathway: str, tissue: str) -> bool:
    """Say whether a statement is about this gene set in this tissue; what is unnamed is meant."""
    if stated.pathway is not None and not same_pathway(stated.pathway, pathway):
        return False
    if stated.apart and any(same_tissue(named, tissue) for named in stated.apart):
        return False
    tissues = stated.tissues
    return not tissues or tissue in tissues or any(same_tissue(named, tissue) for named in tissues)


def settle(stated: Sequence[Statement], truth: str, name: str) -> Finding:
    """Return the verdict of statements about one subject against its true direction."""
    says = {one.says for one in stated if not one.is_negated}
    denies = {one.says for one in stated if one.is_negated}
    if truth in says:
        if says == {truth} and truth not in denies:
            return Finding("correct", f"{name}: {truth}, as in the data")
        return Finding("contradictory", f"{name}: both {truth} and something else")
    if says:
        verdict = "contradictory" if len(says) > 1 or says & denies else "incorrect"
        return Finding(verdict, f"{name}: {' and '.join(sorted(says))} stated, {truth} in the data")
    if truth in denies:
        return Finding("incorrect", f"{name}: denies {truth}, which the data show")
    return Finding("no_claim", f"{name}: only says what it is not")
