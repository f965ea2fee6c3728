"""Votes and annotations as they are stored, and the rows of an exported preference data set, in the formats trainers and rankers read.

`prompt`, `chosen`, `rejected`, `completion` and `label` are TRL's own columns (conversational,
explicit prompt); `model_a`, `model_b` and `winner` are those of arena rankings. Everything else
is provenance, which they ignore. Field descriptions end up in the data card.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from evals.schema.questions import Message, Verdict
from evals.schema.record import Choice, Record
from evals.schema.reports import Metric


def turns(system_prompt: str, question: str) -> tuple[Message, ...]:
    """Return what a model is given: the question, below the system prompt if there is one."""
    asked = Message(role="user", content=question)
    return (Message(role="system", content=system_prompt), asked) if system_prompt else (asked,)


class Answer(Record):
    """A stored answer: everything needed to ask for it again."""

    id: str
    asked_at: datetime
    session: str
    question: str
    example_id: str | None
    stage: str
    text: str
    finish_reason: Literal["stop", "length", "cancelled"]
    chain: str
    stage_sha256: str
    system_prompt: str
    seed: int
    max_new_tokens: int
    temperature: float
    dtype: str
    verdict: Verdict | None = None

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The turns that led to the answer."""
        return turns(self.system_prompt, self.question)


Strength = Literal["slight", "clear"]
REMARK_CHARACTERS = 500


class Comparison(Record):
    """One blind vote between two stored answers to the same question; `is_anonymous`: its rater gave no name.

    How much better the chosen side is (`strength`) and why is said after the vote, or not at all.
    """

    id: str
    voted_at: datetime
    rater: str
    question: str
    example_id: str | None
    left_answer: str
    right_answer: str
    left_stage: str
    right_stage: str
    choice: Choice
    is_anonymous: bool = False
    strength: Strength | None = None
    reasons: tuple[str, ...] = ()
    remark: str = Field(default="", max_length=REMARK_CHARACTERS)


class StagePairCounts(Record):
    """How votes between two stages fell."""

    first: str
    """the stage that sorts before the other"""
    second: str
    """the other"""
    first_chosen: int = Field(ge=0)
    """votes for the first"""
    second_chosen: int = Field(ge=0)
    """votes for the second"""
    ties: int = Field(ge=0)
    """votes for neither"""
    both_bad: int = Field(ge=0)
    """votes against both"""


class VoteCounts(Record):
    """What the store holds. `votes` stand, `withdrawn` were taken back and count nowhere else.

    `usable` are votes for one side between different texts: those that make a preference pair.
    """

    answers: int = Field(ge=0)
    votes: int = Field(ge=0)
    withdrawn: int = Field(ge=0)
    raters: int = Field(ge=0)
    usable: int = Field(ge=0)
    by_choice: dict[Choice, int]
    by_stages: tuple[StagePairCounts, ...]


class VoteEvent(Record):
    """A vote with both answers in full, what was said of one later ("explained": the vote), or that one was taken back.

    The answers stand in events of the kind "vote" only. The rater is a salted hash.
    """

    schema_version: Literal[1] = 1
    kind: Literal["vote", "explained", "withdrawn"]
    at: datetime
    vote_id: str
    vote: Comparison | None = None
    left: Answer | None = None
    right: Answer | None = None


ExportFormat = Literal["dpo", "kto", "sft", "arena"]
Reason = Literal["held_out", "tie", "both_bad", "identical_texts", "names_itself", "same_model"]
Turns = tuple[Message, ...]


class AnswerOrigin(Record):
    """Where an answer comes from: enough to ask for it again."""

    answer_id: str
    """the stored answer"""
    asked_at: datetime
    """when it was asked"""
    chain: str
    """the chain"""
    stage: str
    """the stage"""
    stage_sha256: str
    """checksum of the stage's adapter"""
    seed: int
    """its seed"""
    max_new_tokens: int
    """most tokens that it could have"""
    temperature: float
    """its temperature"""
    dtype: str
    """type of the weights"""
    finish_reason: Literal["stop", "length", "cancelled"]
    """how it ended; length = cut off"""


class Provenance(Record):
    """What every row says about the vote it comes from."""

    vote_id: str = Field(description="the vote; several rows may come from one")
    pair_id: str = Field(description="hash of the question and the two texts, whichever side they stood on")
    example_id: str | None = Field(description="the question in the question bank, null if typed")
    choice: Choice = Field(description="what the rater clicked: left, right, tie or both_bad")
    rater: str = Field(description="salted hash of the rater; the salt is not part of the export")
    is_anonymous: bool = Field(description="the rater gave no name: several such raters may be one person")
    created_at: datetime = Field(description="when the vote was cast, UTC")
    strength: Strength | None = Field(default=None, description="how much better: slight or clear; null if not said")
    reasons: tuple[str, ...] = Field(default=(), description="why, from the list that raters are offered")
    remark: str = Field(default="", description="why, in the rater's own words")


class DpoRow(Provenance):
    """A preference pair for `trl.DPOTrainer` and `trl.RewardTrainer`."""

    prompt: Turns = Field(description="system message, if there was one, and the question")
    chosen: Turns = Field(description="the answer the rater preferred, one assistant message")
    rejected: Turns = Field(description="the other answer, one assistant message")
    stage_chosen: str = Field(description="stage of the adapter chain that wrote `chosen`")
    stage_rejected: str = Field(description="stage of the adapter chain that wrote `rejected`")
    side_shown: Literal["left", "right"] = Field(description="side `chosen` was shown on")
    origin_chosen: AnswerOrigin = Field(description="chain, adapter checksum, seed and settings")
    origin_rejected: AnswerOrigin = Field(description="the same for `rejected`")


class KtoRow(Provenance):
    """One answer with a thumb up or down, for `trl.KTOTrainer`."""

    prompt: Turns = Field(description="system message, if there was one, and the question")
    completion: Turns = Field(description="the answer, one assistant message")
    label: bool = Field(description="true if it was preferred, false if it lost or both were bad")
    stage: str = Field(description="stage of the adapter chain that wrote it")
    origin: AnswerOrigin = Field(description="chain, adapter checksum, seed and settings")


class SftRow(Provenance):
    """One preferred answer as a demonstration, for `trl.SFTTrainer`."""

    prompt: Turns = Field(description="system message, if there was one, and the question")
    completion: Turns = Field(description="the answer the rater preferred, one assistant message")
    stage: str = Field(description="stage of the adapter chain that wrote it")
    origin: AnswerOrigin = Field(description="chain, adapter checksum, seed and settings")


class ArenaRow(Provenance):
    """One battle, ties and both-bad included, for Bradley-Terry rankings."""

    model_a: str = Field(description="stage shown on the left")
    model_b: str = Field(description="stage shown on the right")
    winner: Literal["model_a", "model_b", "tie", "both_bad"] = Field(description="the outcome")
    conversation_a: Turns = Field(description="prompt and answer on the left")
    conversation_b: Turns = Field(description="prompt and answer on the right")
    origin_a: AnswerOrigin = Field(description="chain, adapter checksum, seed and settings")
    origin_b: AnswerOrigin = Field(description="the same for the right")


ExportRow = DpoRow | KtoRow | SftRow | ArenaRow


class ExportStatistics(Record):
    """statistics.json: what is in an export and what was left out of it."""

    schema_version: Literal[1] = 1
    """version of the format"""
    format: ExportFormat
    """format of the rows"""
    exported_at: datetime
    """when it was made"""
    rows_file: str
    """the file of rows"""
    rows_sha256: str
    """its checksum"""
    rows: int = Field(ge=0)
    """how many rows it has"""
    votes: int = Field(ge=0)
    """votes that gave rows, and all that were left out"""
    left_out: dict[Reason, int]
    """votes that gave no row, by reason"""
    raters: int = Field(ge=0)
    """raters behind the rows"""
    questions: int = Field(ge=0)
    """questions behind the rows"""
    first_vote: datetime
    """time of the oldest vote"""
    last_vote: datetime
    """time of the newest vote"""
    by_stages: tuple[StagePairCounts, ...]
    """how votes fell, by pair of stages"""
    chains: tuple[str, ...]
    """the chains that answered"""
    licence: str | None
    """the licence of the export"""
    agreement: dict[str, Metric] = Field(default_factory=dict)
    """how far raters agree, over all votes"""


class BoardRow(Record):
    """One model on a board. `rating` in points, with its 95 % interval; 400 more are odds of ten to one.

    `rank` = 1 + how many of the `group` (1 = the one with most votes) are shown to be better; votes connect nobody of one
    group with one of another. `win_rate`: share of votes won, a tie as half.
    """

    group: int = Field(ge=1)
    rank: int = Field(ge=1)
    model: str
    rating: float
    low: float
    high: float
    votes: int = Field(ge=0)
    wins: int = Field(ge=0)
    ties: int = Field(ge=0)
    win_rate: float = Field(ge=0, le=1)


class Board(Record):
    """Ratings from the votes on one kind of question; "all" are all, "own" those that are in no question set.

    `against`: of each model, by the other, the share of votes that it won, a tie as half, and how many those are.
    """

    kind: str
    votes: int = Field(ge=0)
    questions: int = Field(ge=0)
    raters: int = Field(ge=0)
    rows: tuple[BoardRow, ...]
    against: dict[str, dict[str, tuple[float, int]]] = Field(default_factory=dict)


class BoardCheck(Record):
    """Whether votes show a fault that speaks against their board; `says` are the sentences that tell it, with these figures.

    `low` and `high` are of a share, in per cent.
    """

    name: Literal["sides", "circles", "raters", "style", "ties"]
    is_fault: bool = False
    says: tuple[str, ...]
    figures: dict[str, str | int | float] = Field(default_factory=dict)


class BoardPoint(Record):
    """The rating of a model after the first `votes`, with its 95 % interval."""

    votes: int = Field(ge=1)
    model: str
    rating: float
    low: float
    high: float


class Boards(Record):
    """All boards; of the standing `votes` those `left_out` count on none. `checks` and `over_votes` are of the board of all."""

    votes: int = Field(ge=0)
    left_out: dict[Reason, int]
    boards: tuple[Board, ...]
    checks: tuple[BoardCheck, ...] = ()
    over_votes: tuple[BoardPoint, ...] = ()


# ---- annotations ---------------------------------------------------------------------------------


State = Literal["pending", "draft", "submitted", "discarded"]
"""pending = nothing kept yet; draft = kept, not final; discarded = looked at, and not to be annotated."""
NoteKind = Literal["wrong_fact", "unsupported", "contradicts", "good"]
Thumb = Literal["up", "down"]
VerdictLabel = Literal["correct", "incorrect", "contradictory", "no_claim"]


class Dimension(Record):
    """One thing that an answer is rated for."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """its name in files"""
    title: str = Field(min_length=1)
    """its name on the page"""
    guideline: str = ""
    """what the ends mean"""
    low: int = 1
    """the lowest rating"""
    high: int = 5
    """the highest rating"""

    @model_validator(mode="after")
    def _has_steps(self) -> "Dimension":
        if not self.low < self.high <= self.low + 10:
            raise ValueError(f"{self.name} goes from {self.low} to {self.high}; give a range of 2 to 11 steps")
        return self


class Guidelines(Record):
    """What raters are asked. A changed text is a new version; dimensions stay."""

    version: int = Field(default=1, ge=1)
    """counted from 1"""
    text: str = ""
    """the guidelines"""
    dimensions: tuple[Dimension, ...] = ()
    """what an answer is rated for"""
    reasons: tuple[str, ...] = ()
    """reasons to choose from"""

    @model_validator(mode="after")
    def _is_named_once(self) -> "Guidelines":
        names = [each.name for each in self.dimensions]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f"the dimension {twice!r} stands twice; each has a name of its own")
        return self


class AnnotationProject(Record):
    """Answers that people annotate, each by `raters_per_item` of them."""

    id: str
    """the project"""
    title: str = Field(min_length=1)
    """its name on the page"""
    created_at: datetime
    """when it was made"""
    guidelines: Guidelines
    """what raters are asked"""
    raters_per_item: int = Field(default=1, ge=1, le=20)
    """how many people judge each answer"""


class AnnotationItem(Record):
    """One answer to annotate."""

    id: str
    """the answer; ":again" at the end: it is asked a second time"""
    project: str
    """the project"""
    added_at: datetime
    """when it was added"""
    question: str
    """the question"""
    text: str
    """the answer"""
    system_prompt: str = ""
    """the system prompt that led to it"""
    example_id: str | None = None
    """the question in the question bank"""
    kind: str | None = None
    """kind of the question"""
    tissue: str | None = None
    """tissue of the question"""
    stage: str
    """the stage that wrote it"""
    chain: str
    """the chain"""
    verdict: Verdict | None = None
    """what the verifiers say"""
    source: str = ""
    """where the answer comes from: a stored answer, or a row of a report"""
    assigned: tuple[str, ...] = ()
    """the one rater who is asked; empty = anyone"""
    gold: VerdictLabel | None = None
    """its known label, where raters are held against one"""

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The turns that led to the answer."""
        return turns(self.system_prompt, self.question)


class Note(Record):
    """A remark on a span of the answer."""

    start: int = Field(ge=0)
    """first character"""
    end: int = Field(ge=1)
    """character behind the last"""
    kind: NoteKind
    """what kind of remark"""
    comment: str = ""
    """the remark"""

    @model_validator(mode="after")
    def _is_span(self) -> "Note":
        if self.end <= self.start:
            raise ValueError(f"a note from {self.start} to {self.end} marks nothing; select some text")
        return self


class Annotation(Record):
    """What one person says of one answer, as it stands. Everything but who, what and when may be left out."""

    item: str
    """the answer"""
    rater: str
    """who says so"""
    state: State
    """how far it is"""
    updated_at: datetime
    """when it was last changed"""
    ratings: dict[str, int] = Field(default_factory=dict)
    """the rating by dimension"""
    thumb: Thumb | None = None
    """good or bad as a whole"""
    verdict: VerdictLabel | None = None
    """the person's own word on whether the answer is right"""
    reasons: tuple[str, ...] = ()
    """reasons that were chosen"""
    notes: tuple[Note, ...] = ()
    """remarks on spans of the answer"""
    corrected: str | None = None
    """what the model should have written"""
    comment: str = ""
    """a remark on the whole"""
    guidelines: int = Field(default=1, ge=1)
    """the version of the guidelines that was shown"""
    is_adjudication: bool = False
    """settles a disagreement, and counts in exports in place of the others"""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing yet."""
        said = (self.ratings, self.thumb, self.verdict, self.reasons, self.notes, self.corrected, self.comment)
        return not any(said)


# ---- pairs that were judged ------------------------------------------------------------------------


CHOICES = ("first", "second", "tie", "both_bad")
"""What a rater may choose between two answers, whichever side they stood on."""


@dataclass(frozen=True)
class JudgedPair:
    """One standing vote with the two answers it was cast on."""

    vote: Comparison
    left: Answer
    right: Answer


class Outcome(NamedTuple):
    """So many votes that fell the same way. `winner` is None for a tie and for both bad."""

    first: str
    second: str
    choice: Choice
    winner: str | None
    votes: int


def outcome_of(stages: tuple[str, str], choice: Choice, *, same_text: bool, votes: int = 1) -> Outcome:
    """Return how votes fell between the stages shown left and right; between equal texts no side can win."""
    if same_text and choice != "both_bad":
        choice = "tie"
    first, second = sorted(stages)
    return Outcome(first, second, choice, {"left": stages[0], "right": stages[1]}.get(choice), votes)


def count_pairs(outcomes: Iterable[Outcome]) -> tuple[StagePairCounts, ...]:
    """Return one count per pair of stages, pairs in alphabetical order."""
    pairs: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        pairs.setdefault((outcome.first, outcome.second), []).append(outcome)
    return tuple(
        StagePairCounts(
            first=first,
            second=second,
            first_chosen=sum(one.votes for one in seen if one.winner == first),
            second_chosen=sum(one.votes for one in seen if one.winner == second != first),
            ties=sum(one.votes for one in seen if one.choice == "tie"),
            both_bad=sum(one.votes for one in seen if one.choice == "both_bad"),
        )
        for (first, second), seen in sorted(pairs.items())
    )


def pair_id(pair: JudgedPair) -> str:
    """Return a hash of a question and the two texts, whichever side they stood on and whenever they were written."""
    texts = sorted((pair.left.text, pair.right.text))
    return hashlib.sha256(json.dumps([pair.vote.question, *texts]).encode()).hexdigest()[:32]


def rater_of(vote: Comparison) -> str:
    """Return whom a vote is counted as: browsers without a name may all be one person's, so they are one rater."""
    return "anonymous" if vote.is_anonymous else vote.rater


def names_itself(left: Answer, right: Answer) -> bool:
    """Whether one of two answers tells who wrote it: one of them, or a model that everybody knows; rules: naming.toml."""
    names = {part for each in (left, right) for part in (*each.stage.split("@"), each.chain) if part}
    rule = _rule(frozenset(names))
    return any(rule.search(each.text) for each in (left, right))


@cache
def _rule(names: frozenset[str]) -> re.Pattern[str]:
    told = tomllib.loads(Path(__file__).with_name("naming.toml").read_text(encoding="utf-8"))
    alone = [*told["alone"], *(re.escape(name) for name in names if re.search(r"[\d.-]", name))]
    known = _any([*alone, *map(re.escape, (*told["introduced"], *names))])
    before, behind, an = _any(told["introduces"]), _any(told["followed"]), r"(?:the\s+|an?\s+)?"
    forms = (_any(alone), rf"{before}\s+{an}{known}", rf"as\s+{an}{known}[\s-]+{behind}")
    return re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(forms)})(?![\w-])")


def _any(words: Collection[str]) -> str:
    return f"(?:{'|'.join(sorted(words))})"
