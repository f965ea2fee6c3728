"""A record, answers, their case tables and where a report comes from, for the refiner's tests."""

from pathlib import Path

import yaml
from hypothesis import strategies as st

from evals.refine.judge import Verdicts
from evals.refine.score import PreparedAnswer, prepare
from evals.schema.refiner import RefinerRecord, RewardConfig

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/refiner.yaml").read_text(encoding="utf-8"))
EVIDENCE = CASES["evidence"]
TOOL_OUTPUT = "\n".join(f"<snippet id={name}>{text}</snippet>" for name, text in EVIDENCE.items())
GOOD = "<answer>Briefly: <snippet id=S1>OXPHOS is down in liver</snippet>.</answer>"

ORIGIN = CASES["origin"] | {"reward": RewardConfig()}


def record(**changes: object) -> RefinerRecord:
    """Return a record with one wanted and one unwanted behaviour."""
    return RefinerRecord.model_validate({**CASES["record"], "tool_output": TOOL_OUTPUT, **changes})


def verdicts(of: PreparedAnswer, share: float | None = 1.0, need: float = 0.0, **changes: object) -> Verdicts:
    """Return the same verdict everywhere, but for these changes."""
    relevance = tuple((share,) * len(ids) for ids in of.cited)
    support, needs = (share,) * len(of.reading.claims), (need,) * len(of.reading.uncited)
    given = {"raws": (2.0,) * len(of.items), "support": support, "relevance": relevance, "needs": needs}
    return Verdicts(**{"quotes": ("",) * len(of.items), **given, **changes})


def prepared(text: str, about: RefinerRecord | None = None, **config: object) -> PreparedAnswer:
    """Return an answer read and checked."""
    return prepare(about or record(), text, RewardConfig.model_validate(config))


NAMES = st.sampled_from([*EVIDENCE, "X9", "nowhere"])
WORDS = st.lists(
    st.sampled_from(["OXPHOS", "is", "up", "down", "in", "liver", "4,110", "e.g.", ".", ",", "β-cell"]), max_size=6
).map(" ".join)
PARTS = st.lists(st.one_of(WORDS, st.tuples(st.lists(NAMES, min_size=1, max_size=4), WORDS)), max_size=6)


def written(parts: list[str | tuple[list[str], str]]) -> str:
    """Return an answer made of sentences and claims."""
    pieces = [
        each if isinstance(each, str) else f"<snippet id={','.join(each[0])}>{each[1]}</snippet>" for each in parts
    ]
    return f"<answer>{' '.join(pieces)}</answer>"
