"""The words that the claim readers know, as one table from phrase to tag.

A phrase is a tuple of words; between its words a text may have blanks, hyphens or slashes. What is
not in the table is an unknown word: it asserts nothing and, as the subject of a clause, belongs to
something that was not asked about.
"""

from typing import NamedTuple


class Tag(NamedTuple):
    """What a phrase means: its kind, its value and, for directions, its grammatical form."""

    kind: str
    value: str = ""
    form: str = ""


UP_WORDS = {
    "participle": "upregulated; up regulated; activated; increased; elevated; enhanced; induced; higher;"
    " overexpressed; over expressed; stimulated; promoted; raised; boosted; augmented; amplified;"
    " switched on; turned on; turned up; positively enriched; positively regulated; more active;"
    " more highly expressed; more strongly expressed; more expressed; upward; upwards",
    "verb": "upregulates; up regulates; upregulate; up regulate; upregulating; activates; activate; activating;"
    " increases; increasing; elevates; elevate; elevating; enhances; enhance; enhancing; induces; induce;"
    " inducing; stimulates; stimulate; stimulating; promotes; promote; promoting; raises; raise; raising; boosts; boost;"
    " boosting; amplifies; turns on; switches on; turns up",
    "intransitive": "rises; rise; rose; risen; rising; climbs; climbed; surges; surged",
    "noun": "upregulation; up regulation; activation; induction; elevation; increase; enhancement;"
    " stimulation; overexpression; gain of; positive enrichment; positive nes; positively; up shift",
    "weak": "enriched",
    "bare": "up; positive",
}
DOWN_WORDS = {
    "participle": "downregulated; down regulated; suppressed; decreased; reduced; inhibited; repressed; lower;"
    " lowered; underexpressed; under expressed; depressed; diminished; attenuated; impaired; depleted;"
    " silenced; dampened; blunted; weakened; lost; switched off; turned off; turned down; shut down; shut off;"
    " negatively enriched; negatively regulated; less active; less expressed; less strongly expressed;"
    " less highly expressed; downward; downwards",
    "verb": "downregulates; down regulates; downregulate; down regulate; downregulating; suppresses; suppress;"
    " suppressing; decreases; decreasing; reduces; reduce; reducing; inhibits; inhibit; inhibiting; represses;"
    " repress; repressing; lowers; lowering; depresses; diminishes; diminish; attenuates; attenuate; impairs;"
    " impair; impairing; dampens; silences; turns off; switches off; turns down; shuts down; loses",
    "intransitive": "falls; fall; fell; fallen; falling; declines; declined; declining; drops; dropped;"
    " dropping; shrinks; shrank; wanes; dips; dipped",
    "noun": "downregulation; down regulation; suppression; decrease; reduction; inhibition; repression; decline;"
    " drop; loss of; attenuation; depletion; impairment; silencing; underexpression; negative enrichment;"
    " negative nes; negatively; down shift",
    "bare": "down; negative",
}
CHANGED_WORDS = (
    "changed; change; changes; altered; alter; alters; alteration; affected; affect; affects; effect;"
    " difference; shift; shifted; regulated; significant; perturbed; direction; response; enrichment"
)
UNCHANGED_WORDS = "unchanged; unaltered; unaffected; remains stable; is stable; was stable; stays the same; neither direction"

NEGATORS = (
    "not; no; never; neither; nor; without; isn't; wasn't; aren't; weren't; doesn't; didn't; don't; hasn't;"
    " haven't; won't; wouldn't; can't; couldn't; cannot; not true; untrue; false; falsely; incorrect;"
    " incorrectly; wrong; wrongly; mistaken; a mistake; not the case; far from; fails to; fail to; failed to;"
    " lack of; lacks; lacking; absence of; absent; rather than; instead of; as opposed to; opposite of;"
    " the opposite of; no evidence; no evidence that; no evidence for; no evidence of; no sign of; no sign that;"
    " no indication; no indication of; no indication that; little evidence; little evidence that; unlikely;"
    " deny; denies; denied; doubt; doubts; doubtful; anything but; by no means; in no way; not at all;"
    " ruled out; rules out; rule out; refute; refutes; refuted; disprove; disproves; disproved; a myth;"
    " not yet; no longer; hardly; scarcely; nowhere near"
)
NOT_NEGATORS = (
    "not only; not just; not merely; not simply; no doubt; no doubt that; without doubt; without a doubt;"
    " without question; not surprisingly; not surprising; not surprising that; no wonder; if not; false discovery;"
    " false discovery rate; not unexpected; not unexpectedly; no fewer than; no less than"
)
SENTENCE_DENIALS = (
    "is false; is untrue; is wrong; is incorrect; is not true; is not correct; is not the case;"
    " is not supported; is unsupported; is mistaken; is a myth; is a mistake; was false; was wrong; was not true;"
    " was incorrect; was not supported; isn't true; isn't correct; isn't the case; isn't supported; is refuted;"
    " would be wrong; would be false; would be incorrect; would be a mistake; does not hold; doesn't hold;"
    " cannot be true; can't be true"
)

BREAKS = (
    "but; however; while; whereas; although; though; even though; yet; because; since; therefore; hence; thus;"
    " thereby; so; which; who; despite; in contrast; by contrast; on the other hand; when; where; as; with;"
    " due to; owing to; through; via; leading to; resulting in; reflecting; caused by; driven by; suggesting;"
    " indicating; meaning; then"
)
TURNS = (
    "but; however; while; whereas; although; though; even though; yet; rather; instead; on the contrary;"
    " because; in fact; actually; so; therefore"
)
"""Breaks at which the reach of an earlier negation ends too."""

CONDITIONS = "if; whether; unless; suppose; supposing; assuming; hypothetically; in case; imagine; either; had it been"
HEDGES = (
    "might; may; could; possibly; possible; perhaps; maybe; uncertain; unclear; unsure; conceivably;"
    " hard to say; difficult to say; not sure; not certain; i guess; who knows; not clear; potentially"
)
CONTRASTS = (
    "unlike; than; compared to; compared with; in comparison to; in comparison with; versus; vs; in contrast to;"
    " as opposed to; except; except for; except in; other than; relative to; rather than; instead of; outside;"
    " against; ahead of; over; behind; followed by; not in; but not; and not"
)
METHODS = (
    "gene set enrichment analysis; gene set enrichment; enrichment analysis; gsea; fgsea; enrichment score;"
    " enrichment scores; normalized enrichment score; normalised enrichment score; enrichment results;"
    " differential expression; differentially expressed; up to; down to; up until; made up of; made up; set up;"
    " follow up; up or down; up and down; up to date; positive control; negative control; positive regulator;"
    " negative regulator; negative feedback; positive feedback; false positive; false negative; directional;"
    " positively correlated; negatively correlated; positive correlation; negative correlation; gene expression;"
    " stress activated; baseline active; stress blocked; activated protein; activated receptor"
)

TISSUES = {
    "liver": "liver; livers; hepatic; hepatocyte; hepatocytes",
    "kidney": "kidney; kidneys; renal",
    "thymus": "thymus; thymuses; thymic; thymi",
    "skin": "skin; dermal; cutaneous; epidermal; dermis; epidermis",
    "eye": "eye; eyes; ocular; retina; retinal",
    "gastrocnemius": "gastrocnemius; calf muscle; gastroc",
    "soleus": "soleus",
    "heart": "heart; hearts; cardiac; myocardium; myocardial",
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
    " some experiments; other experiments; a few missions; half of the missions; half the missions; the second"
)

ALL_MISSIONS = (
    "two of three; two of the three; two out of three; 2 of 3; 2 of the 3; 2 out of 3; three of four; three of five;"
    " four of six; three of six; five of six; four of five; most missions; most of the missions; most flights;"
    " majority; the majority of missions; a majority of missions; all missions; all three missions;"
    " all two missions; all six missions; both missions; every mission; each mission; overall; consensus;"
    " consistently; across missions; across the missions; in general; generally; on the whole; all of them;"
    " all three; both; throughout; every one; all flights; all studies; all datasets"
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
    " contradict each other; contradict; no shared direction"
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
    add(TURNS, "break", "turn")
    add(HEDGES, "hedge")
    add(CONDITIONS, "condition")
    add(CHANGED_WORDS, "changed")
    add(UNCHANGED_WORDS, "unchanged")
    add(NEGATORS, "not")
    add(CONTRASTS, "contrast")
    add("rather than; instead of; as opposed to; not in; but not; and not", "not", "contrast")
    add(NOT_NEGATORS, "neutral")
    add(SENTENCE_DENIALS, "denial")
    add(METHODS, "method")
    add(ONE_MISSION, "mission", "one")
    add(ALL_MISSIONS, "majority")
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
    for tissue, listed in TISSUES.items():
        add(listed, "tissue", tissue)
    return table
