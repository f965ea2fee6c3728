"""The words that the claim readers know, as one table from phrase to tag.

A phrase is a tuple of words; between its words a text may have blanks, hyphens or slashes. What is
not in the table is an unknown word: it asserts nothing and, as the subject of a clause, belongs to
something that was not asked about.
"""

from typing import NamedTuple

from evals.verifiers.frames import (
    ALTERNATIVES,
    CONDITIONS,
    FUTURE,
    HEDGES,
    NO_CONDITIONS,
    SUPPOSITIONS,
    UNREAL,
)


class Tag(NamedTuple):
    """What a phrase means: its kind, its value and, for directions, its grammatical form."""

    kind: str
    value: str = ""
    form: str = ""


UP_WORDS = {
    "participle": "upregulated; up regulated; activated; increased; elevated; enhanced; induced; higher;"
    " overexpressed; over expressed; stimulated; promoted; raised; boosted; augmented; amplified;"
    " switched on; turned on; turned up; positively enriched; positively regulated; more active;"
    " more highly expressed; more strongly expressed; more expressed; upward; upwards; ramped up; revved up; derepressed;"
    " de repressed; upmodulated; up modulated; reactivated; unleashed",
    "verb": "upregulates; up regulates; upregulate; up regulate; upregulating; activates; activate; activating;"
    " increases; increasing; elevates; elevate; elevating; enhances; enhance; enhancing; induces; induce;"
    " inducing; stimulates; stimulate; stimulating; promotes; promote; promoting; raises; raise; raising; boosts; boost;"
    " boosting; amplifies; turns on; switches on; turns up; ramps up; derepresses; stimulatory effect on; activating effect on",
    "intransitive": "rises; rise; rose; risen; rising; climbs; climbed; surges; surged; soars; soared; jumps; jumped;"
    " grows stronger",
    "noun": "upregulation; up regulation; activation; induction; elevation; increase; enhancement;"
    " stimulation; overexpression; gain of; gain in; positive enrichment; positive nes; positively; up shift;"
    " nes is positive; nes was positive; nes above zero; nes is above zero; nes was above zero; derepression",
    "weak": "enriched",
    "bare": "up; positive; above zero; above 0",
}
DOWN_WORDS = {
    "participle": "downregulated; down regulated; suppressed; decreased; reduced; inhibited; repressed; lower;"
    " lowered; underexpressed; under expressed; depressed; diminished; attenuated; impaired; depleted;"
    " silenced; dampened; blunted; weakened; lost; switched off; turned off; turned down; shut down; shut off;"
    " negatively enriched; negatively regulated; less active; less expressed; less strongly expressed;"
    " less highly expressed; downward; downwards; downmodulated; down modulated; curtailed; quenched; hampered; abolished;"
    " abrogated; muted; restrained; subdued; toned down; ramped down; dialled down; dialed down; knocked down; cut back",
    "verb": "downregulates; down regulates; downregulate; down regulate; downregulating; suppresses; suppress;"
    " suppressing; decreases; decreasing; reduces; reduce; reducing; inhibits; inhibit; inhibiting; represses;"
    " repress; repressing; lowers; lowering; depresses; diminishes; diminish; attenuates; attenuate; impairs;"
    " impair; impairing; dampens; dampen; silences; turns off; switches off; turns down; shuts down; shuts off; loses; blunts;"
    " blunt; curtails; curtail; quenches; hampers; hamper; abolishes; suppressive effect on; inhibitory effect on;"
    " repressive effect on",
    "intransitive": "falls; fall; fell; fallen; falling; declines; declined; declining; drops; dropped;"
    " dropping; shrinks; shrank; wanes; waned; dips; dipped; plummets; plummeted; weakens; tumbles; tumbled; sinks; sank;"
    " slumps; slumped; collapses; collapsed; dwindles; dwindled; plunges; plunged; subsides",
    "noun": "downregulation; down regulation; suppression; decrease; reduction; inhibition; repression; decline;"
    " drop; loss of; loss in; attenuation; depletion; impairment; silencing; underexpression; negative enrichment;"
    " negative nes; negatively; down shift; nes is negative; nes was negative; nes below zero; nes is below zero;"
    " nes was below zero",
    "bare": "down; negative; below zero; below 0",
}
LIFTED = "release of; release from; relief of; relief from; removal of; lifting of; escape from; reversal of"
"""What turns the noun after it into its opposite ("release of the suppression"); alone it says nothing."""
CHANGED_WORDS = (
    "changed; change; changes; altered; alter; alters; alteration; affected; affect; affects; effect;"
    " difference; shift; shifted; regulated; perturbed; direction; response; enrichment"
)
UNCHANGED_WORDS = (
    "unchanged; unaltered; unaffected; remains stable; is stable; was stable; stays the same; neither direction;"
    " little change; minimal change; negligible change; hardly any change; barely changes; hardly changes; is flat;"
    " was flat; remains flat; stays flat; remains constant; stays constant; is constant"
)

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

BREAKS = (
    "but; however; while; whereas; although; though; even though; yet; because; since; therefore; hence; thus;"
    " thereby; so; which; who; despite; in contrast; by contrast; on the other hand; when; where; as; with;"
    " due to; owing to; through; via; leading to; resulting in; reflecting; caused by; driven by; suggesting;"
    " indicating; meaning; then; suggest that; suggests that; suggested that; show that; shows that; showed that;"
    " indicate that; indicates that; indicated that; find that; finds that; found that; reveal that; reveals that;"
    " revealed that; report that; reports that; reported that; demonstrate that; demonstrates that; conclude that;"
    " concluded that; mean that; means that; think that; believe that; imply that; implies that; confirm that; confirms that;"
    " see that; saw that; know that; note that; is that; was that"
)
TURNS = (
    "but; however; while; whereas; although; though; even though; yet; rather; instead; on the contrary;"
    " because; in fact; actually; so; therefore"
)
"""Breaks at which the reach of an earlier negation ends too."""

CONTRASTS = (
    "unlike; in contrast to; as opposed to; except; except for; except in; other than; rather than; instead of; outside;"
    " against; ahead of; over; behind; followed by; not in; but not; and not; contrary to; everything but; everything except;"
    " all but; all except; every set but; every set except; all sets except; all sets but; all gene sets except;"
    " all gene sets but; any set but; apart from; with the exception of; aside from; excluding; barring; save for"
)
COMPARISONS = "than; compared to; compared with; in comparison to; in comparison with; versus; vs; relative to"
METHODS = (
    "gene set enrichment analysis; gene set enrichment; enrichment analysis; gsea; fgsea;"
    " enrichment results;"
    " differential expression; differentially expressed; over representation analysis; over representation; up to; down to; up until; made up of; made up; set up;"
    " follow up; up or down; up to date; up front; up stream; down stream; look up; looked up; looks up; makes up;"
    " make up; making up; ends up; ended up; end up; comes up; come up; came up; write up; show up; shows up; showed up;"
    " sums up; sum up; summed up; brought up; bring up; brings up; back up; backed up; pick up; picks up; picked up; sign up;"
    " split up; broken down; broke down; breaks down; break down; narrow down; narrows down; narrowed down; boils down;"
    " boil down; written down; write down; comes down to; come down to; scaled down; scaled up; scale up; scale down;"
    " down syndrome; catch up; caught up; grew up; grow up; clean up; cleaned up; line up; lined up; warm up; track down;"
    " reduced model; reduced set; reduced list; reduced to a; lower dose; higher dose; increased sample; activated t;"
    " activated b; activated cells; positive selection; negative selection; positive result; negative result;"
    " positive results; negative results; positive impact; negative impact; positive finding; negative finding;"
    " less downregulated; less upregulated; less suppressed; less activated; less reduced; less increased;"
    " depressed mood; negative regulators; positive regulators; positive control; negative control; positive regulator;"
    " negative regulator; negative feedback; positive feedback; false positive; false negative; directional;"
    " positively correlated; negatively correlated; positive correlation; negative correlation; gene expression;"
    " stress activated; baseline active; stress blocked; activated protein; activated receptor"
)

SCORES = (
    "nes; enrichment score; enrichment scores; normalized enrichment score; normalised enrichment score;"
    " normalized enrichment scores; normalised enrichment scores; nes value; nes values; nes score; nes scores"
)
"""What a figure with a sign stands behind."""

TISSUES = {
    "liver": "liver; livers; hepatic; hepatocyte; hepatocytes",
    "kidney": "kidney; kidneys; renal; nephric",
    "thymus": "thymus; thymuses; thymic; thymi; thymocyte; thymocytes",
    "skin": "skin; dermal; cutaneous; epidermal; dermis; epidermis",
    "eye": "eye; eyes; ocular; ophthalmic; eyeball; eyeballs; retina; retinas; retinal",
    "gastrocnemius": "gastrocnemius; gastrocnemii; calf muscle; calf muscles; gastroc; gastrocs; gastroc muscle",
    "soleus": "soleus",
    "heart": "heart; hearts; cardiac; myocardium; myocardial; ventricle; ventricular",
    "hippocampus": "hippocampus; hippocampal; hippocampi",
    "muscle": "muscle; muscles; skeletal muscle",
    "brain": "brain; brains; cerebral",
    "lung": "lung; lungs; pulmonary",
    "spleen": "spleen; splenic; spleens",
    "bone": "bone; bones; skeletal; femur",
    "blood": "blood; plasma; serum",
    "adrenal": "adrenal; adrenals; adrenal gland",
    "colon": "colon; gut; intestine; intestinal",
    "tibialis": "tibialis; tibialis anterior",
    "quadriceps": "quadriceps",
    "edl": "edl; extensor digitorum longus",
    "adipose": "adipose tissue; white adipose tissue; brown adipose tissue; fat tissue",
    "mammary": "mammary; mammary gland; breast",
}
MUSCLES = frozenset({"gastrocnemius", "soleus", "tibialis", "quadriceps", "edl"})
"""Where one of these is asked about, a plain "muscle" means it."""

ONE_MISSION = (
    "one mission; one of the missions; one of three missions; one of two missions; one of the three missions;"
    " one of the two missions; a single mission; another mission; another; other missions; the other mission;"
    " the other missions; the other; the others; others; some missions; some of the missions; some; several missions;"
    " certain missions; the remaining mission; the remaining missions; the rest; one study; some studies;"
    " other studies; another study; one flight; some flights; other flights; another flight; one dataset;"
    " another dataset; some datasets; other datasets; the third mission; the third; one experiment;"
    " some experiments; other experiments; a few missions; half of the missions; half the missions; the second;"
    " two missions; two flights; two of the missions; one is; one goes; one shows; two are; two go; two show"
)

MOST_MISSIONS = (
    "two of three; two of the three; two out of three; 2 of 3; 2 of the 3; 2 out of 3; three of four; three of five;"
    " four of six; three of six; five of six; four of five; most missions; most of the missions; most flights;"
    " majority; the majority of missions; a majority of missions;"
    " overall; consensus; across missions; across the missions; in general; generally; on the whole"
)
ALL_MISSIONS = (
    "all missions; all three missions; all two missions; all six missions; both missions; every mission; each mission;"
    " consistently; all of them; all three; both; throughout; every one; all flights; all studies; all datasets"
)

DIFFER_WORDS = (
    "disagree; disagrees; disagreed; disagreement; disagreeing; differ; differs; differed; differing; different;"
    " differently; vary; varies; varied; varying; variable; mixed; conflicting; conflict; conflicts; inconsistent;"
    " inconsistently; inconsistency; discordant; discordance; opposite directions; opposing directions;"
    " opposite direction; opposing direction; both directions; heterogeneous; divergent; diverge; diverges;"
    " contradictory; context dependent; mission dependent; mission specific; tissue specific; tissue dependent;"
    " depends on the mission; depend on the mission; depends on mission; depends on the tissue; depends on tissue;"
    " no consensus; no single direction; not one direction; no uniform; no clear direction; no common direction;"
    " no one direction; no consistent direction; no agreement; oppose; oppose each other; opposite ways; split;"
    " contradict each other; contradict; no shared direction;"
    " no direction holds; no direction; goes the other way; go the other way; goes the opposite way; go the opposite way"
)
SAME_WORDS = (
    "agree; agrees; agreed; agreement; agreeing; consistent; consistency; consistently; the same; same direction;"
    " same way; uniform; uniformly; unanimous; unanimously; concordant; concordance; one direction; single direction;"
    " shared; conserved across missions; identical; alike; consensus; a single direction; common direction; uniformity"
)
AXIS_WORDS = {
    "missions": "mission; missions; flight; flights; study; studies; experiment; experiments; dataset; datasets",
    "tissues": "tissue; tissues; organ; organs",
    "other": "sex; sexes; age; ages; strain; strains; species; genes; people; authors; scientists; labs; methods",
}

LEVELS = {
    "highly conserved": (
        ("highly", "strongly", "well", "very well", "very", "largely", "very highly"),
        ("high", "strong", "good", "very high", "very good"),
    ),
    "moderately conserved": (
        ("moderately", "partly", "partially", "somewhat", "modestly", "fairly"),
        ("moderate", "medium", "partial", "intermediate", "modest"),
    ),
    "poorly conserved": (
        (
            "poorly",
            "weakly",
            "barely",
            "hardly",
            "little",
            "not well",
            "not",
            "not at all",
            "badly",
        ),
        ("poor", "low", "weak", "little", "very low", "very little", "no", "hardly any"),
    ),
}
LEVEL_WORDS = ("conserved", "reproducible", "concordant", "correlated", "consistent")
LEVEL_NOUNS = (
    "conservation",
    "reproducibility",
    "concordance",
    "agreement",
    "correlation",
    "consistency",
)

FACTORS = {
    "HU": "hu; hindlimb unloading; hind limb unloading; unloading; unloaded; hindlimb suspension",
    "IR": "ir; ionizing radiation; ionising radiation; radiation; irradiation; irradiated",
    "KMP": "kmp; kaempferol",
    "HU+IR": "both stressors; combined stress; combined stressors; the two stressors; both stresses; huir;"
    " dual stress; the combination of stressors",
    "interaction": "interaction; interactions; interaction term; interacting; interacts",
    "HU+IR+interaction": "hu x ir; huxir; ir x hu; irxhu; hu by ir; hu ir interaction; interaction of hu and ir;"
    " interaction of hindlimb unloading and radiation; hindlimb unloading x radiation",
    "KMP+HU+interaction": "kmp x hu; kmpxhu; hu x kmp; huxkmp; kmp by hu; kmp hu interaction;"
    " kaempferol x unloading; kaempferol x hindlimb unloading; kaempferol x hu",
    "KMP+IR+interaction": "kmp x ir; kmpxir; ir x kmp; irxkmp; kmp by ir; kmp ir interaction;"
    " kaempferol x radiation; kaempferol x ionizing radiation; kaempferol x ir",
    "baseline": "baseline; unstressed; without stress; at rest; no stress; without any stressor; no stressor;"
    " without stressors; without a stressor",
}


def phrases(listed: str) -> list[tuple[str, ...]]:
    """Return the phrases of a "; "-separated list, each as its words."""
    return [tuple(phrase.split()) for phrase in listed.split(";") if phrase.strip()]


def entries() -> list[tuple[tuple[str, ...], Tag]]:
    """Return every phrase with its tag; later entries win over earlier ones of the same words."""
    table: list[tuple[tuple[str, ...], Tag]] = []

    def add(listed: str, kind: str, value: str = "", form: str = "") -> None:
        table.extend((phrase, Tag(kind, value, form)) for phrase in phrases(listed))

    add(BREAKS, "break")
    add(TURNS, "break", form="turn")
    add(HEDGES, "hedge")
    add(CONDITIONS, "condition", form="if")
    add(UNREAL, "condition", form="if")
    add(ALTERNATIVES, "condition")
    add(SUPPOSITIONS, "supposition")
    add("would", "supposition", form="would")
    add(FUTURE, "supposition", form="would")
    add(CHANGED_WORDS, "changed")
    add("significant", "changed", "significant")
    add(UNCHANGED_WORDS, "unchanged")
    add(AVERTERS, "averts")
    add(NEGATORS, "not")
    add(NEGATORS_TO_COMMA, "not", form="short")
    add(CONTRASTS, "contrast")
    add(COMPARISONS, "contrast", "comparison")
    add(
        "rather than; instead of; as opposed to; not in; but not; and not; contrary to",
        "not",
        form="contrast",
    )
    add(NOT_NEGATORS, "neutral")
    add(NO_CONDITIONS, "neutral")
    add("respectively", "respectively")
    add(SENTENCE_DENIALS, "denial")
    add(METHODS, "method")
    add(SCORES, "score")
    add("control; controls; ground control; ground controls", "controls")
    add(ONE_MISSION, "mission", "one")
    add(MOST_MISSIONS, "majority", "most")
    add(ALL_MISSIONS, "majority", "all")
    for number in range(1, 24):
        add(f"rr {number}; rr{number}; rodent research {number}", "mission", f"RR-{number}")
    for number in range(1, 9):
        add(f"mhu {number}; mhu{number}", "mission", f"MHU-{number}")
        for site in ("dorsal", "femoral"):
            add(f"mhu {number} {site}", "mission", f"MHU-{number}_{site}")
    for level, (adverbs, adjectives) in LEVELS.items():
        add("; ".join(f"{a} {w}" for a in adverbs for w in LEVEL_WORDS), "level", level)
        add("; ".join(f"{a} {n}" for a in adjectives for n in LEVEL_NOUNS), "level", level)
    for factors, listed in FACTORS.items():
        add(listed, "factor", factors)
    for axis, listed in AXIS_WORDS.items():
        add(listed, "axis", axis)
    add(DIFFER_WORDS, "agreement", "DIFFER")
    add(SAME_WORDS, "agreement", "SAME")
    for sign, table_of_forms in (("UP", UP_WORDS), ("DOWN", DOWN_WORDS)):
        for form, listed in table_of_forms.items():
            add(listed, "direction", sign, form)
    add(LIFTED, "direction", "DOWN", "lift")
    for tissue, listed in TISSUES.items():
        add(listed, "tissue", tissue)
    return table
