"""Judge one gene set over several tissues: the direction in each, and whether they agree."""

from evals.schema import Claim, ComparisonTruth
from evals.verifiers.agreement import agreements
from evals.verifiers.direct import is_about, settle
from evals.verifiers.direction import statements
from evals.verifiers.finding import Finding, direction_claims
from evals.verifiers.names import readable, same_pathway
from evals.verifiers.reading import Reading
from evals.verifiers.uncertainty import yes_or_no


def judge_comparison(truth: ComparisonTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: every direction stated is right, and so is "same" or "differs".

    Saying only whether tissues agree is right but worth less: credit is the share right out of the
    agreement and every tissue. An agreement that the listed directions belie is contradictory.
    """
    found = statements(reading)
    about = [
        a
        for a in agreements(reading)
        if a.axis in ("tissues", None)
        and (not a.pathways or any(same_pathway(named, truth.pathway) for named in a.pathways))
    ]
    name = readable(truth.pathway)
    claims = list(direction_claims(reading, found, None, truth.pathway))
    for agreement in about:
        start, end = reading.span(agreement.first, agreement.last)
        claims.append(
            Claim(
                subject=f"tissues on {name}",
                says=agreement.says,
                start=start,
                end=end,
                about="agreement",
            )
        )
    by_tissue = {
        tissue: settle(
            [s for s in found if is_about(s, truth.pathway, tissue)],
            direction,
            f"{name} in {tissue}",
        )
        for tissue, direction in truth.tissue_directions.items()
    }
    said = {agreement.says for agreement in about} or yes_or_no(reading, question)
    finding = _weigh(truth, by_tissue, said)
    return Finding(finding.verdict, finding.reason, tuple(claims), finding.credit)


def _weigh(truth: ComparisonTruth, by_tissue: dict[str, Finding], said: set[str]) -> Finding:
    agreement = "SAME" if truth.is_consistent else "DIFFER"
    verdicts = {tissue: finding.verdict for tissue, finding in by_tissue.items()}
    right = [tissue for tissue, verdict in verdicts.items() if verdict == "correct"]
    torn = [tissue for tissue, verdict in verdicts.items() if verdict == "contradictory"]
    wrong = [tissue for tissue, verdict in verdicts.items() if verdict == "incorrect"]
    if len(said) > 1 or torn:
        what = f"on {torn[0]}" if torn else "on whether tissues agree"
        return Finding("contradictory", f"says two things {what}")
    if wrong:
        return Finding("incorrect", by_tissue[wrong[0]].reason)
    if said and said != {agreement}:
        verdict = "contradictory" if len(right) == len(by_tissue) else "incorrect"
        return Finding(verdict, f"says tissues {said.pop()}; the data say {agreement}")
    if said or len(right) == len(by_tissue):
        credit = (1 + len(right)) / (1 + len(by_tissue))
        return Finding(
            "correct",
            f"tissues {agreement}; {len(right)} of {len(by_tissue)} directions right",
            (),
            credit,
        )
    if right:
        return Finding(
            "no_claim", f"only {', '.join(right)} answered; nothing on whether tissues agree"
        )
    return Finding("no_claim", "no direction and nothing on whether tissues agree")
