"""The words that deny what follows or precedes them, that avert it, and those that only look so."""

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
    " rarely; seldom; reject; rejects; rejected; refuse to; refuses to; isnt; arent; wasnt; werent; doesnt; didnt;"
    " dont; hasnt; wont; wouldnt; cant; couldnt; aint; ain't"
)
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
    " false discovery rate; not unexpected; nothing less than; none other than; no one knows; nobody knows; not unexpectedly; no fewer than; no less than"
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
