"""A record, answers and where a report comes from, for the refiner's tests, and hypothesis strategies for both."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from evals.refine.judge import Verdicts
from evals.refine.score import Prepared, prepare
from evals.report import Origin
from evals.schema.refiner import RefinerRecord, RewardConfig, RubricItem

EVIDENCE = {
    "S1": "In liver, OXPHOS is down in flight (NES -1.9).",
    "S2": "In kidney, adipogenesis is up.",
    "W:3.a-b_c": "A page about muscle.",
}
TOOL_OUTPUT = "\n".join(f"<snippet id={name}>{text}</snippet>" for name, text in EVIDENCE.items())
GOOD = "<answer>Briefly: <snippet id=S1>OXPHOS is down in liver</snippet>.</answer>"

ORIGIN = Origin(
    data_name="d",
    chain_name="c",
    stage_checksums={},
    settings={},
    versions={},
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    command="",
    own={"judge": "heuristic", "judge_mode": "no language model", "reward": RewardConfig()},
)


def record(**changes: object) -> RefinerRecord:
    """Return a record with one wanted and one unwanted behaviour."""
    given = {
        "id": "r1",
        "prompt": "Which way does OXPHOS go in liver?",
        "tool_output": TOOL_OUTPUT,
        "positive_rubrics": (RubricItem(title="way", description='Says that it is "down".'),),
        "negative_rubrics": (RubricItem(title="wrong way", description='Says that it is "up".'),),
        **changes,
    }
    return RefinerRecord.model_validate(given)


def verdicts(prepared: Prepared, raw: float | None = 2.0, share: float | None = 1.0, need: float = 0.0) -> Verdicts:
    """Return the same verdict everywhere."""
    return Verdicts(
        raws=(raw,) * len(prepared.items),
        quotes=("",) * len(prepared.items),
        support=(share,) * len(prepared.reading.claims),
        relevance=tuple((share,) * len(ids) for ids in prepared.cited),
        needs=(need,) * len(prepared.reading.uncited),
    )


def prepared(text: str, about: RefinerRecord | None = None, **config: object) -> Prepared:
    """Return an answer read and checked."""
    return prepare(about or record(), text, RewardConfig.model_validate(config))


NAMES = st.sampled_from([*EVIDENCE, "X9", "nowhere"])
WORDS = st.lists(
    st.sampled_from(["OXPHOS", "is", "up", "down", "in", "liver", "4,110", "e.g.", ".", ",", "β-cell"]), max_size=6
).map(" ".join)
SPANS = st.tuples(st.lists(NAMES, min_size=1, max_size=4), WORDS)
PARTS = st.lists(st.one_of(WORDS, SPANS), max_size=6)


def written(parts: list[str | tuple[list[str], str]]) -> str:
    """Return an answer made of sentences and claims."""
    pieces = [
        part if isinstance(part, str) else f"<snippet id={','.join(part[0])}>{part[1]}</snippet>" for part in parts
    ]
    return f"<answer>{' '.join(pieces)}</answer>"
