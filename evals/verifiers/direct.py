"""Judge which way a gene set goes in a tissue (kinds direct and mechanism)."""

from collections.abc import Sequence

from evals.schema import DirectTruth, MechanismTruth
from evals.verifiers.agreement import agreements, is_on
from evals.verifiers.direction import Statement, statements
from evals.verifiers.finding import Finding, direction_claims
from evals.verifiers.grammar import neutral_words
from evals.verifiers.names import readable, same_tissue, words
from evals.verifiers.reading import Reading

NEW_WORDS = 2
"""A reading of a given direction must bring so many telling words that the question does not hold."""


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
    return Finding(finding.verdict, finding.reason, claims)


def judge_mechanism(truth: MechanismTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the direction, if the answer says more than the question did."""
    finding = judge_direct(truth, reading, question)
    if finding.verdict == "correct" and len(_content(reading) - set(words(question))) < NEW_WORDS:
        return Finding("no_claim", "repeats the direction that the question gives", finding.claims)
    return finding


def _content(reading: Reading) -> set[str]:
    """Return the words that say something beyond a direction."""
    said = set()
    for sentence in reading.sentences:
        directions = {
            t for m in sentence.marks if m.kind == "direction" for t in range(m.first, m.last + 1)
        }
        tokens = range(sentence.first, sentence.last + 1)
        said.update(reading.words[token] for token in tokens if token not in directions)
    return said - neutral_words()


def is_about(stated: Statement, pathway: str, tissue: str) -> bool:
    """Say whether a statement is about this gene set in this tissue; what is unnamed is meant."""
    is_ours = stated.pathway is None or stated.pathway == pathway
    return is_ours and (
        not stated.tissues or any(same_tissue(named, tissue) for named in stated.tissues)
    )


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
