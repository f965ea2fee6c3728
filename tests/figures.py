"""The figures in the documents, typed by a program: `python -m tests.figures` writes them anew.

A document names a block, `<!-- figures: NAME -->` … `<!-- end of figures -->`; what stands between is
replaced by what the shipped reports say. A test holds every block to them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from evals.report import HEADLINE, load_report
from evals.schema import EvalReport, Metric, StageSummary

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "training/embedded/grpo/reports"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs/embedded-chain.md")
BLOCK = re.compile(r"(<!-- figures: (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(<!-- end of figures -->)", re.DOTALL)
SHARES = frozenset({"accuracy"})
TABLES: Sequence[tuple[str, str, str, tuple[str, ...]]] = (
    (
        "pathways-heldout",
        HEADLINE,
        "directions, disagreement and conservation in eye and thymus",
        ("always down", "tissue majority", "copy an option", "system prompt only"),
    ),
    ("pathways-heldout", "mechanism", "what the set of a finding stands for", ("copy an option", "system prompt only")),
    ("kmp-test", "all", "KMP test", ("always abstain",)),
    ("kmp-rewordings", "all", "KMP facts of training in unseen wordings", ("always abstain",)),
)
"""Report, group of questions, title, baselines shown beside the stages."""
NAMES = {"base": "base", "sft": "SFT", "dpo": "DPO", "grpo": "GRPO"}


@cache
def report(name: str) -> EvalReport:
    """Return a report that ships with the embedded chain."""
    return load_report(REPORTS / f"{name}.json")


def summary(name: str, stage: str, group: str) -> StageSummary | None:
    """Return what a report says of a stage in a group of questions."""
    found = (s for s in report(name).summaries if (s.stage, s.group) == (stage, group))
    return next(found, None)


def stages(name: str) -> list[str]:
    """Return the stages of a report, baselines left out, in order."""
    return list(dict.fromkeys(s.stage for s in report(name).summaries if not s.is_baseline))


def shown(metric: str, value: float | None) -> str:
    """Return a value as the documents show it: accuracies in per cent, the rest with three digits."""
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if metric in SHARES else f"{value:.3f}"


def cell(metric: str, found: Metric | None) -> str:
    """Return a figure with its interval, or a dash where there is none."""
    if found is None or found.value is None:
        return "–"
    text = shown(metric, found.value)
    if found.low is not None and found.high is not None:
        digits, scale = (0, 100) if metric in SHARES else (2, 1)
        text += f" [{scale * found.low:.{digits}f}, {scale * found.high:.{digits}f}]"
    return text


def stages_block() -> str:
    """Return every stage and three baselines on the questions kept from training.

    Each row is of one group of questions, so no two of its figures stand on different ones. What a gene
    set stands for is a group of its own: such questions name the direction.
    """
    heads = ("answers of", "accuracy", "reward", "readable line", "ECE", "by chance, up to", "Brier", "base rate")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, group, title, baselines in TABLES:
        named = (*stages(name), *(known_stage(name, each) for each in baselines))
        found = [summary(name, stage, group) for stage in named]
        n = found[0].metrics["accuracy"].n if found[0] else 0
        lines.append(f"| **{title}, n {n}** |" + " |" * (len(heads) - 1))
        lines += ["| " + " | ".join(_row(each)) + " |" for each in found if each]
    return "\n".join(lines) + "\n"


def summary_block() -> str:
    """Return the README's table: the accuracy of each stage beside the best of the baselines, and how far off SFT's and GRPO's confidence is."""
    heads = ("held-out questions", "n", *NAMES.values(), "best guess without a model", "ECE of SFT", "of GRPO")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, group, title, _ in TABLES:
        found = {s.stage: s for s in report(name).summaries if s.group == group}
        best = max((s for s in found.values() if s.is_baseline), key=lambda s: s.metrics["accuracy"].value or 0)
        cells = [title, str(best.metrics["accuracy"].n)]
        cells += [cell("accuracy", found[stage].metrics["accuracy"]) for stage in NAMES]
        cells += [f"{cell('accuracy', best.metrics['accuracy'])} ({best.stage.partition(',')[0]})"]
        cells += [cell("ece", found[stage].metrics["ece"]) for stage in ("sft", "grpo")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def known_stage(name: str, stage: str) -> str:
    """Return the stage whose name begins so."""
    found = [s.stage for s in report(name).summaries if s.stage.startswith(stage)]
    if not found:
        raise KeyError(f"the report {name} has no stage {stage!r}")
    return found[0]


def _row(found: StageSummary) -> list[str]:
    metrics = found.metrics
    by_chance = metrics.get("ece_if_calibrated_q95")
    return [
        NAMES.get(found.stage, found.stage),
        cell("accuracy", metrics["accuracy"]),
        cell("reward", metrics["reward"]),
        f"{100 * (metrics['line_share'].value or 0):.0f} %",
        cell("ece", metrics["ece"]),
        shown("ece", by_chance.value if by_chance else None),
        cell("brier", metrics["brier"]),
        shown("brier", metrics["base_rate_brier"].value),
    ]


BLOCKS: Mapping[str, Callable[[], str]] = {"summary": summary_block, "stages": stages_block}


def renewed(text: str) -> str:
    """Return a document with every block written anew; KeyError for a block of unknown name."""

    def block(match: re.Match[str]) -> str:
        return match[1] + BLOCKS[match["name"]]() + match[4]

    return BLOCK.sub(block, text)


def main(documents: Sequence[Path] = DOCUMENTS) -> None:
    """Write the blocks of all documents anew."""
    for path in documents:
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
