"""The sentences of pathway questions. Each kind has several wordings; the question picks its own.

Which wording a question gets follows from a checksum of what it asks, so the same question is the
same text everywhere and for ever. Answers are one or two sentences and name tissue and gene set.
About half of them also name the missions behind the statement and half do not, so that a model
learns both: which of the two it should say depends on whether it knows the missions.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from evals.facts import load_hallmark
from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    Direction,
    DirectTruth,
    MechanismTruth,
    UncertaintyTruth,
)
from evals.verifiers.expected import DIFFERENT, SAME


@dataclass(frozen=True)
class Text:
    """A question and its answer, the answer still without its confidence line."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Agreement:
    """How many of a tissue's missions stand behind the consensus, and how many against it."""

    direction: Direction
    agreeing: int
    opposing: int
    total: int


REGULATED = {"UP": "upregulated", "DOWN": "downregulated"}
WAY = {"UP": "up", "DOWN": "down"}
LEVEL = {"UP": "higher", "DOWN": "lower"}
ACTED = {"UP": "activated", "DOWN": "suppressed"}
AMOUNT = {"UP": "more", "DOWN": "less"}

DIRECT_PROMPTS = (
    "In mouse {tissue} after spaceflight, is the {name} gene set upregulated or downregulated?",
    "Which way does the {name} gene set move in mouse {tissue} during spaceflight, up or down?",
    "Does spaceflight raise or lower the expression of {name} genes in mouse {tissue}?",
    "What is the consensus direction of the Hallmark set {name} in spaceflown mouse {tissue}?",
    "Flight against ground control in mouse {tissue}: is {name} higher or lower?",
)
DIRECT_ANSWERS = (
    "In mouse {tissue}, the {name} gene set is {regulated} after spaceflight, {support}.",
    "The {name} gene set goes {way} in spaceflown mouse {tissue}, {support}.",
    "In mouse {tissue}, expression of the {name} gene set is {level} in flight, {support}.",
    "In mouse {tissue}, the {name} gene set is {regulated} after spaceflight.",
    "The {name} gene set goes {way} in spaceflown mouse {tissue}.",
    "In mouse {tissue}, expression of the {name} gene set is {level} in flight.",
)
LONE_MISSION_PROMPTS = (
    "In mouse {tissue} after spaceflight, is the {name} gene set upregulated or downregulated in mission {mission}?",
    "Which way does the {name} gene set move in mouse {tissue} during mission {mission}, up or down?",
    "Does spaceflight raise or lower the expression of {name} genes in mouse {tissue} of mission {mission}?",
    "What is the direction of the Hallmark set {name} in mouse {tissue} flown on mission {mission}?",
    "Flight against ground control in mouse {tissue} of mission {mission}: is {name} higher or lower?",
)
LONE_MISSION_ANSWERS = (
    "In mouse {tissue}, the {name} gene set is {regulated} in mission {mission}.",
    "The {name} gene set goes {way} in mouse {tissue} of mission {mission}.",
    "In mouse {tissue}, expression of the {name} gene set is {level} in mission {mission}.",
)
MECHANISM_PROMPTS = (
    "The {name} gene set is {acted} in mouse {tissue} after spaceflight. What does the set stand for?",
    "Which process does the {name} gene set, {regulated} in spaceflown mouse {tissue}, stand for?",
    "Spaceflight leaves {name} {acted} in mouse {tissue}. Which process does this set stand for?",
    "What does the {acted} {name} gene set stand for in mouse {tissue} in flight?",
)
MECHANISM_ANSWERS = (
    "The {name} gene set is {regulated} in mouse {tissue}, {support}. It stands for {about}, so"
    " these genes are {amount} active in flight; expression alone does not show the cause.",
    "In mouse {tissue}, the {name} gene set is {acted} in flight, {support}. This points to"
    " {amount} gene activity for {about}, but it is no proof of a mechanism.",
    "The {name} gene set is {regulated} in mouse {tissue}. It stands for {about}, so these genes are"
    " {amount} active in flight; expression alone does not show the cause.",
    "In mouse {tissue}, the {name} gene set is {acted} in flight. This points to {amount} gene"
    " activity for {about}, but it is no proof of a mechanism.",
)
LONE_MISSION_MECHANISM_PROMPTS = (
    "The {name} gene set is {acted} in mouse {tissue} of mission {mission}. What does the set stand for?",
    "Which process does the {name} gene set, {regulated} in mouse {tissue} of mission {mission}, stand for?",
    "Mission {mission} leaves {name} {acted} in mouse {tissue}. Which process does this set stand for?",
    "What does the {acted} {name} gene set stand for in mouse {tissue} of mission {mission}?",
)
LONE_MISSION_MECHANISM_ANSWERS = (
    "The {name} gene set is {regulated} in mouse {tissue} of mission {mission}. It stands for {about},"
    " so these genes are {amount} active in flight; expression alone does not show the cause.",
    "In mouse {tissue}, the {name} gene set is {acted} in mission {mission}. This points to {amount}"
    " gene activity for {about}, but it is no proof of a mechanism.",
)
UNCERTAINTY_PROMPTS = (
    "Do spaceflight missions agree on the direction of the {name} gene set in mouse {tissue}?",
    "Can one direction be given for {name} in mouse {tissue} across all spaceflight missions?",
    "How consistent is the response of {name} between spaceflight missions in mouse {tissue}?",
    "Is the change of the {name} gene set in spaceflown mouse {tissue} the same in every mission?",
)
UNCERTAINTY_ANSWERS = (
    "Missions disagree on the {name} gene set in mouse {tissue}: up in {up}, down in {down}. No"
    " single direction holds for all missions.",
    "There is no single direction for the {name} gene set in mouse {tissue}, because missions"
    " disagree: it is up in {up} and down in {down}.",
    "Missions disagree on the {name} gene set in mouse {tissue}: it goes up in some and down in"
    " others. No single direction holds for all missions.",
    "There is no single direction for the {name} gene set in mouse {tissue}, because missions"
    " disagree: it is up in some and down in others.",
)
COMPARISON_PROMPTS = (
    "Does spaceflight change the {name} gene set in the same direction in mouse {tissues}?",
    "How does the direction of {name} in spaceflight compare between mouse {tissues}?",
    "Is the spaceflight response of the {name} gene set shared by mouse {tissues}?",
)
CONSERVATION_PROMPTS = (
    "How well is the pathway response to spaceflight conserved between missions in mouse {tissue}?",
    "Do gene set scores of mouse {tissue} agree from one spaceflight mission to the next?",
    "How reproducible across missions is the pathway response of mouse {tissue} to spaceflight?",
)
CONSERVATION_ANSWER = (
    "In mouse {tissue}, pathway responses to spaceflight are {level} between missions: the mean"
    " pairwise correlation of enrichment scores is {r:.3f}."
)


def direct(tissue: str, pathway: str, agreement: Agreement) -> Text:
    """Return a question after the direction, and the direction with its missions."""
    key = f"direct/{tissue}/{pathway}"
    words = _words(tissue, pathway, agreement)
    answer = pick(DIRECT_ANSWERS, f"{key}/answer").format(**words)
    return Text(pick(DIRECT_PROMPTS, key).format(**words), answer)


def lone_mission(tissue: str, pathway: str, mission: str, direction: Direction) -> Text:
    """Return a question after the direction in one mission, and the direction."""
    key = f"mission/{tissue}/{pathway}"
    words = _words_of_mission(tissue, pathway, mission, direction)
    answer = pick(LONE_MISSION_ANSWERS, f"{key}/answer").format(**words)
    return Text(pick(LONE_MISSION_PROMPTS, key).format(**words), answer)


def lone_mission_mechanism(tissue: str, pathway: str, mission: str, direction: Direction) -> Text:
    """Return a question that names the direction in one mission, and a careful reading of it."""
    key = f"mission-mechanism/{tissue}/{pathway}"
    words = _words_of_mission(tissue, pathway, mission, direction)
    answer = pick(LONE_MISSION_MECHANISM_ANSWERS, f"{key}/answer").format(**words)
    return Text(pick(LONE_MISSION_MECHANISM_PROMPTS, key).format(**words), answer)


def mechanism(tissue: str, pathway: str, agreement: Agreement) -> Text:
    """Return a question that names the direction, and a careful reading of it."""
    key = f"mechanism/{tissue}/{pathway}"
    words = _words(tissue, pathway, agreement)
    answer = pick(MECHANISM_ANSWERS, f"{key}/answer").format(**words)
    return Text(pick(MECHANISM_PROMPTS, key).format(**words), answer)


def uncertainty(truth: UncertaintyTruth) -> Text:
    """Return a question whether missions agree, and which of them say what."""
    key = f"uncertainty/{truth.tissue}/{truth.pathway}"
    words = {
        "tissue": truth.tissue,
        "name": load_hallmark()[truth.pathway].name,
        "up": listed([mission_name(mission) for mission in truth.missions_up]),
        "down": listed([mission_name(mission) for mission in truth.missions_down]),
    }
    answer = pick(UNCERTAINTY_ANSWERS, f"{key}/answer").format(**words)
    return Text(pick(UNCERTAINTY_PROMPTS, key).format(**words), answer)


def comparison(truth: ComparisonTruth) -> Text:
    """Return a question over several tissues, and the direction in each of them."""
    tissues = list(truth.tissue_directions)
    name = load_hallmark()[truth.pathway].name
    prompt = pick(COMPARISON_PROMPTS, f"comparison/{truth.pathway}").format(name=name, tissues=listed(tissues))
    up = [tissue for tissue in tissues if truth.tissue_directions[tissue] == "UP"]
    down = [tissue for tissue in tissues if truth.tissue_directions[tissue] == "DOWN"]
    if truth.is_consistent:
        way = "up" if up else "down"
        answer = f"The {name} gene set goes {way} in mouse {listed(tissues)}: the direction is the same."
    else:
        answer = (
            f"The {name} gene set goes up in mouse {listed(up)} but down in {listed(down)}:"
            " the direction differs between tissues."
        )
    return Text(prompt, answer)


def conservation(truth: ConservationTruth) -> Text:
    """Return a question how well the missions of a tissue agree, and the level with its r."""
    prompt = pick(CONSERVATION_PROMPTS, f"conservation/{truth.tissue}").format(tissue=truth.tissue)
    answer = CONSERVATION_ANSWER.format(tissue=truth.tissue, level=truth.level, r=truth.nes_mean_r)
    return Text(prompt, answer)


def stated(
    truth: DirectTruth | MechanismTruth | UncertaintyTruth | ComparisonTruth | ConservationTruth,
) -> str:
    """Return what stands behind `Answer:` in the answer that is taught."""
    match truth:
        case DirectTruth():
            return WAY[truth.direction]
        case MechanismTruth():
            return load_hallmark()[truth.pathway].about
        case UncertaintyTruth():
            return "missions disagree"
        case ComparisonTruth():
            return SAME if truth.is_consistent else DIFFERENT
        case ConservationTruth():
            return truth.level


def pick(wordings: Sequence[str], key: str) -> str:
    """Return the wording that belongs to `key`, always the same one."""
    return wordings[int(digest(key)[:8], 16) % len(wordings)]


def digest(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def listed(words: Sequence[str]) -> str:
    """Return ["a", "b", "c"] as "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def mission_name(mission: str) -> str:
    """Return a mission as people write it: "MHU-2_dorsal" -> "MHU-2 dorsal"."""
    return mission.replace("_", " ")


def _words(tissue: str, pathway: str, agreement: Agreement) -> dict[str, str]:
    """Return everything that templates of one consensus may name."""
    support = f"significant in {agreement.agreeing} of {agreement.total} missions"
    if agreement.opposing:
        support += f" ({agreement.opposing} against)"
    return {**_words_of_set(tissue, pathway, agreement.direction), "support": support}


def _words_of_mission(tissue: str, pathway: str, mission: str, direction: Direction) -> dict[str, str]:
    """Return everything that templates of one mission's finding may name."""
    return {**_words_of_set(tissue, pathway, direction), "mission": mission_name(mission)}


def _words_of_set(tissue: str, pathway: str, direction: Direction) -> dict[str, str]:
    """Return the words for a gene set of a tissue, what it stands for, and which way it moved."""
    row = load_hallmark()[pathway]
    return {
        "tissue": tissue,
        "name": row.name,
        "about": row.about,
        "regulated": REGULATED[direction],
        "way": WAY[direction],
        "level": LEVEL[direction],
        "acted": ACTED[direction],
        "amount": AMOUNT[direction],
    }
