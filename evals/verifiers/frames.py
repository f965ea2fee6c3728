"""What frames a statement so that it is not asserted: suppositions, wishes, fiction, hearsay, other places.

"In my dream X is reduced", "We hoped that X is reduced", "A naive reader would conclude that …"
"X is reduced in theory only", "… in rats", "… sometimes", 'The phrase "X is reduced" has three words'
"""

from evals.verifiers.denial import each

CONDITIONS = (
    "if; unless; assume; suppose; supposing; assuming; hypothetically; in case; imagine; had it been; provided that;"
    " on condition that; as long as; only when"
)
"""Nothing in the sentence of one of these is asserted, up to a turn."""
UNREAL = (
    # fiction, games, other worlds
    "in a parallel universe; in another universe; in another world; in a dream; in my dream; in my dreams; dream; dreamt; dreamed;"
    " in fiction; fictional; fictitious; fairy tale; fairy tales; fable; legend has it; in a novel; in a story; in a film; make believe;"
    " science fiction; pretend; pretending; pretends; imaginary; opposite day; upside down world; joke; jokes; jokingly; parody; satire;"
    " for the sake of; let us say; let's say; say for; role play; thought experiment; counterfactual;"
    # wishes, aims, predictions
    " wish; wishes; wished; wishful; hope; hopes; hoped; hoping; hopefully; aim; aims; aimed; set out to; intended; intend;"
    " wanted; want me; wants; plan to; planned; tried to; try to; attempted to; sought to; dreams of;"
    # hearsay and error
    " rumour; rumours; rumor; rumors; rumoured; rumored; hearsay; gossip; anecdote; purportedly; ostensibly; so called; reputedly;"
    " used to believe; used to think; used to say; was once thought; were once thought; once thought; once believed; once said;"
    " long thought; long believed; formerly thought; previously thought; previously believed; naive; naively; a fool; fools; foolish;"
    " liar; liars; critics; sceptics; skeptics; opponents; tabloid; tabloids; discredited; debunked; retracted; outdated; obsolete;"
    " bogus; fabricated; made up; invented; fake; hoax; spurious; erroneous; erroneously; misreading; misread; misleading;"
    " misconception; misunderstanding; fallacy; fallacious; absurd; ridiculous; ludicrous; laughable; preposterous; at first sight;"
    " at first glance; on the face of it; only appears; only seems; merely appears; merely seems; seemingly; would be tempted;"
    # words as words, instructions, examples
    " the phrase; the word; the words; the string; the slogan; four letter; letter word;"
    " must not give; must not say; should not say; not to say; never say; never answer; want me to; told me to; asked me to;"
    " instructed to; is the new; example answer; sample answer; example of a; a wrong answer; incorrect answer; multiple choice;"
    " by definition; tongue twister; rhymes with; spelled;"
    # seldom, in part, elsewhere
    " sometimes; occasionally; at times; now and then; of the time; intermittently; insufficiently; or something; give or take; up to sign;"
    " up to a sign; or whatever; half down; half up; at random; in theory; in principle; on paper; on earlier flights;"
    " on previous flights; on past flights; earlier flights; previous flights; in vitro; in silico; in culture; on mars; on the moon;"
    " on venus; in rats; in rat; in humans; in human; human thymus; human liver; in patients; in monkeys; in zebrafish; in flies;"
    " in plants; in yeast; in pigs; in dogs; in men; in women; in astronauts; whenever; every time; in case of; in the event of;"
    " after bed rest; during bed rest; following bed rest; under bed rest; in bed rest;"
    " null hypothesis; conjectured; speculated; hypothetical; once upon a time; told to; asked to; paid to; forced to say;"
    " far be it from; remains to be seen; yet to be seen; every other; cell culture; is what a; is what an; is what some; is what they;"
    " is what one; is what people; is what critics; is what many"
)
"""Nothing in a sentence with one of these is asserted either, up to a turn."""
FUTURE = (
    "will be; should be; ought to be; shall be; is going to be; is supposed to be; was supposed to be; is meant to be; can be; needs to be; need to be; has to be; have to be;"
    " would like to be; wants to be; want to be"
)
"""A direction that follows one of these is not said to be there."""
ALTERNATIVES = "whether; either"
"""What follows one of these, up to a comma, is one of several."""
SUPPOSITIONS = (
    "by which; through which; hypothesis; hypothesised; hypothesized; hypothesise; hypothesize; predict; predicts; predicted that; chance that;"
    " probability that; likelihood that; chances that; odds that; possibility that; you asked; you ask; your question;"
    " the question is; the question was; the question asks; the question says; the question states; the question reads;"
    " the prompt says; the prompt states; the prompt asks; you said; you say; you state; you stated; you wrote; you write;"
    " you told; you want to know; one might expect; some might expect; you might expect; one may expect; one might think; some might think; one may think; one could think; some say; some claim;"
    " some think; many think; people say; people think; others say; they say; it is said; one reads; rumour has it; supposedly;"
    " allegedly; "
    + each(
        "some; others; many; most; people; they; critics; laymen; laypeople; readers; layman",
        "would; might; could; may; will",
        "say; claim; argue; think; guess; believe; conclude; suppose; assume; maintain; answer; suggest",
    )
    + "; "
    + each(
        "some; others; many; people; they",
        "said; claimed; claim; thought; think; believed; believe; argued; argue; maintained; maintain; assumed; assume",
    )
)
"""What is only thought or said by others: a direction that follows, up to a comma, is not asserted."""
NO_CONDITIONS = (
    "should be read; should be interpreted; should be called; should be described; should be considered; should be understood;"
    " should be said; should be reported; should be seen; should be taken; can be seen; can be said; can be read; can be concluded; can be inferred; can be described; can be interpreted;"
    " can be found; can be observed; can be explained; can be attributed; can be considered; can be called; can be determined; can be regarded;"
    " can be summarised; can be summarized; can be stated; can be taken; can be given; can be understood; will be read; will be seen; no hope; i hope this helps; hope this helps; i hope that helps; hope that helps;"
    " if i had to choose; if i had to guess; if forced to choose; if asked; even if; as if; if anything; if not; if at all; would say; would argue; would conclude; would call;"
    " would guess; would answer; would describe; would go with; would bet; would think; would read"
)
HEDGES = (
    "might; may; could; possibly; possible; perhaps; maybe; uncertain; unclear; unsure; conceivably;"
    " hard to say; difficult to say; not sure; not certain; i guess; who knows; not clear; potentially"
)
