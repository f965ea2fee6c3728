"""The words that deny what follows or precedes them, that avert it, and those that only look so."""

from itertools import product


def each(*choices: str) -> str:
    """Return each phrase that takes one of every "; "-separated list of choices, in order."""
    told = product(*([one.strip() for one in listed.split(";")] for listed in choices))
    return "; ".join(" ".join(filter(None, phrase)) for phrase in told)


NEGATORS = (
    "not; no; never; neither; nor; without; isn't; wasn't; aren't; weren't; doesn't; didn't; don't; hasn't;"
    " haven't; won't; wouldn't; can't; couldn't; cannot; not true; untrue; false; falsely; incorrect;"
    " incorrectly; wrong; wrongly; mistaken; a mistake; not the case; far from; fails to; fail to; failed to;"
    " lack of; lacks; lacking; absence of; absent; rather than; instead of; as opposed to; opposite of;"
    " the opposite of; no evidence; no evidence that; no evidence for; no evidence of; no sign of; no sign that;"
    " no indication; no indication of; no indication that; little evidence; little evidence that; unlikely;"
    " deny; denies; denied; doubt; doubts; doubtful; anything but; by no means; in no way; not at all;"
    " ruled out; rules out; rule out; refute; refutes; refuted; disprove; disproves; disproved; a myth;"
    " not yet; no longer; less likely; impossible; impossible that; implausible; hardly; scarcely; nowhere near;"
    " nothing; nobody; no one; none of; neither of; zero missions; 0 missions; zero of; 0 of 2; 0 of 3; 0 of 4; 0 of 6; 0 out of;"
    " have my doubts; have doubts; has doubts; have our doubts; rarely; seldom; reject; rejects; rejected; refuse to; refuses to; isnt; arent; wasnt; werent; doesnt; didnt;"
    " dont; hasnt; wont; wouldnt; cant; couldnt; aint; ain't"
)
REFUTERS = (
    "contradicts; contradicted; contradicting; dispute; disputes; disputed; disputing; denying; doubting; refuting; disproving;"
    " speaks against; speak against; spoke against; argues against; argue against; argued against; incompatible with; at odds with"
)
"""They reach to the next comma; behind another negation they cancel it: "nobody disputes that …"."""
NEGATORS_TO_COMMA = (
    "no longer; not yet; not at all; in no way; by no means; far from; nowhere near; anything but; none of; rarely;"
    " seldom; contrary to; neither of; fails to; fail to; failed to"
)
"""Negators of several words that reach no further than the next comma or colon."""
AVERTERS = (
    "prevents; prevent; prevented; preventing; protects; protect; protected; reverses; reverse; reversed; stops; stop;"
    " stopped; avoids; avoid; avoided; resists; resist; resisted; averts; averted; counteracts; counteracted; spares;"
    " escapes; escaped; withstands; restores; restored; rescues; rescued; relieves; relieved; undoes; the opposite of; the other way than; other way than"
)
"""What keeps a change from happening: "prevents the downregulation of X"."""
NOT_NEGATORS = (
    "not only; not just; not merely; not simply; no doubt; no doubt that; without doubt; without a doubt;"
    " without question; not surprisingly; not surprising; not surprising that; no wonder; false discovery;"
    " false discovery rate; not unexpected; nothing less than; none other than; no one knows; nobody knows; not unexpectedly; no fewer than; no less than;"
    " my doubts; our doubts; all doubts; any doubts;"
    " no exception; no exceptions; beyond doubt; beyond dispute; beyond question; beyond any doubt; beyond a doubt; beyond all doubt;"
    " beyond reasonable doubt; little doubt; no reason to doubt; not in doubt; no question; cannot help; can't help; cannot but; "
    + each(
        "without; with no; absence of; the absence of; lack of; the lack of; absent",
        "; any; the pull of; the force of; a single",
        "gravity; exception; exceptions; fail; question; hesitation; reservation; reservations",
    )
    + "; "
    + each("hard; difficult; impossible", "to", "deny; dispute; doubt; contest; question; refute")
    + "; "
    + each("no one; nobody; no mission; no study", "questions; contests")
)
SENTENCE_DENIALS = (
    "is false; is untrue; is wrong; is incorrect; is not true; is not correct; is not the case;"
    " is not supported; is unsupported; is mistaken; is a myth; is a mistake; was false; was wrong; was not true;"
    " was incorrect; was not supported; isn't true; isn't correct; isn't the case; isn't supported; is refuted;"
    " would be wrong; would be false; would be incorrect; would be a mistake; does not hold; doesn't hold;"
    " cannot be true; can't be true; is simply not true; is simply not the case; is just not true; is just not so; is not so;"
    " was not the case; was not observed; were not observed; was not seen; were not seen; was not found; were not found;"
    " was not detected; is not seen; is not observed; is not found; is not detected; is ruled out; was ruled out;"
    " were ruled out; can be ruled out; is not supported by; is a misconception; is a lie; would be a lie; is rejected;"
    " was rejected; is to be rejected; must be rejected; would be the wrong reading; is the wrong reading;"
    " is the wrong answer; would be the wrong answer; is nonsense; is a fallacy; is fiction; is disproved;"
    " was disproved; was refuted; disappeared; disappears; vanished; vanishes; in none of the missions; in none of them;"
    " in none; in no mission; in zero missions; nowhere; could not be confirmed; was not confirmed; is not confirmed;"
    " has not been observed; has not been seen; has not been found"
)
REFUTALS = "; ".join(
    (
        each(
            "is; was; are; were; has been; have been; had been; has since been; have since been; has now been; was later; was since;"
            " was subsequently; is clearly",
            "refuted; disproved; disproven; overturned; rebutted; withdrawn; contradicted; falsified; abandoned; discarded; dismissed;"
            " unfounded; baseless; untenable; an artefact; an artifact; an error; an illusion; a fluke",
        ),
        each(
            "is not; was not; are not; were not; has not been; have not been; could not be; cannot be; can't be; couldn't be; was never;"
            " has never been; wasn't; isn't",
            "replicated; reproduced; upheld; borne out; corroborated; substantiated; verified; tenable; credible",
        ),
        each(
            "did not; does not; do not; didn't; doesn't; don't; failed to; fails to; fail to; could not",
            "replicate; hold up; stand up; hold water; hold true; survive; reproduce",
        ),
        each(
            "contradicts; contradict; contradicted; conflicts with; conflict with; is inconsistent with; are inconsistent with;"
            " was inconsistent with; is incompatible with; was incompatible with; is at odds with; was at odds with; runs counter to; goes against",
            "the; all; all the; every; each; most",
            "data; evidence; figures; results; scores; mission; missions; studies",
        ),
        "fell apart; falls apart",
    )
)
"""What is said of a claim before them is denied: "the claim that X is reduced has been refuted"."""
OPENINGS = "; ".join(
    (
        each(
            "cannot be; can't be; can not be; could not be; is not; are not; was not",
            "excluded; ruled out",
        ),
        each(
            "is; are; was; were; had been",
            "expected; predicted; anticipated; hypothesised; hypothesized; the hypothesis; the expectation",
        ),
        each("is; was", "our; the; my", "hypothesis; expectation; prediction; starting hypothesis"),
        "is not impossible; was not impossible",
    )
)
"""What is said of a claim before them is left open: "that X is reduced cannot be ruled out"."""
NOT_EXCLUDING = each(
    "cannot; can't; can not; could not; couldn't; do not; does not; nothing; no one can; nobody can; no mission; not",
    "rule out; rules out; exclude; excludes",
)
"""What follows one of these, up to a comma, is left open."""
