"""The words that the claim readers know, as one table from phrase to tag.

A phrase is a tuple of words; between its words a text may have blanks, hyphens or slashes. What is
not in the table is an unknown word: it asserts nothing and, as the subject of a clause, belongs to
something that was not asked about.
"""

from typing import NamedTuple, Protocol

from evals.verifiers.denial import (
    AVERTERS,
    NEGATORS,
    NEGATORS_TO_COMMA,
    NOT_EXCLUDING,
    NOT_NEGATORS,
    OPENINGS,
    REFUTALS,
    REFUTERS,
    SENTENCE_DENIALS,
)
from evals.verifiers.frames import (
    ALTERNATIVES,
    CONDITIONS,
    FUTURE,
    HEDGES,
    NO_CONDITIONS,
    SUPPOSITIONS,
    UNREAL,
)
from evals.verifiers.motion import CHANGED_WORDS, DOWN_WORDS, LIFTED, UNCHANGED_WORDS, UP_WORDS
from evals.verifiers.place import ALL_MISSIONS, FACTORS, MOST_MISSIONS, ONE_MISSION, TISSUES


class Tag(NamedTuple):
    """What a phrase means: its kind, its value and, for directions, its grammatical form."""

    kind: str
    value: str = ""
    form: str = ""


class Add(Protocol):
    """Adds each phrase of a "; "-separated list under a tag."""

    def __call__(self, listed: str, kind: str, value: str = "", form: str = "") -> None: ...


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

DIFFER_WORDS = (
    "disagree; disagrees; disagreed; disagreement; disagreeing; differ; differs; differed; differing; different;"
    " differently; vary; varies; varied; varying; variable; mixed; conflicting; conflict; conflicts; inconsistent;"
    " inconsistently; inconsistency; discordant; discordance; opposite directions; opposing directions; opposite signs; opposing signs; opposed signs; opposite sign; opposed directions;"
    " opposite direction; opposing direction; both directions; heterogeneous; divergent; diverge; diverges;"
    " contradictory; context dependent; mission dependent; mission specific; tissue specific; tissue dependent;"
    " depends on the mission; depend on the mission; depends on mission; depends on the tissue; depends on tissue;"
    " no consensus; no single direction; not one direction; no uniform; no clear direction; no common direction;"
    " no one direction; no consistent direction; no agreement; oppose; oppose each other; opposite ways; split;"
    " contradict each other; contradict; no shared direction;"
    " shows the opposite; show the opposite; showed the opposite; shows the reverse; show the reverse; does the opposite; do the opposite;"
    " points the other way; point the other way; says the opposite; say the opposite; goes in the opposite direction;"
    " one goes the other way; one goes the opposite way; one shows the opposite; one shows the reverse; another shows the opposite;"
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


def phrases(listed: str) -> list[tuple[str, ...]]:
    """Return the phrases of a "; "-separated list, each as its words."""
    return [tuple(phrase.split()) for phrase in listed.split(";") if phrase.strip()]


def entries() -> list[tuple[tuple[str, ...], Tag]]:
    """Return every phrase with its tag; later entries win over earlier ones of the same words."""
    table: list[tuple[tuple[str, ...], Tag]] = []

    def add(listed: str, kind: str, value: str = "", form: str = "") -> None:
        table.extend((phrase, Tag(kind, value, form)) for phrase in phrases(listed))

    _add_frames(add)
    _add_studies(add)
    _add_findings(add)
    return table


def _add_frames(add: Add) -> None:
    """Add what joins, supposes, denies or sets apart."""
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
    add(REFUTERS, "not", "refuter", form="short")
    add("refute; refutes; refuted; deny; denies; denied; doubt; doubts", "not", "refuter")
    add(NOT_EXCLUDING, "supposition")
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
    add(REFUTALS, "denial", form="trail")
    add(OPENINGS, "denial", form="open")
    add(SENTENCE_DENIALS, "denial")


def _add_studies(add: Add) -> None:
    """Add methods, scores and missions."""
    add(METHODS, "method")
    for phrase in phrases(METHODS):
        # "showed up" is a verb, "showed up-regulation" is not that one
        if phrase[-1] in ("up", "down") and "or" not in phrase:
            said = "UP" if phrase[-1] == "up" else "DOWN"
            add(f"{' '.join(phrase)} regulation", "direction", said, "noun")
            add(f"{' '.join(phrase)} regulated", "direction", said, "participle")
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


def _add_findings(add: Add) -> None:
    """Add levels, factors, agreement, directions and tissues."""
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
