"""Cards for what is published: every figure comes from a record, nothing is filled in by guess."""

from pathlib import Path

import jinja2
from huggingface_hub import DatasetCard, DatasetCardData

from evals import pairs
from evals.agreement import NAMES
from evals.exports import AnswerOrigin, ExportFormat, ExportRow, ExportStatistics, Reason

PREFERENCES = Path(__file__).parent / "templates" / "preferences.md"
PAIRS = Path(__file__).parent / "templates" / "pairs.md"

SUMMARIES: dict[ExportFormat, str] = {
    "dpo": "each row is a prompt with a chosen and a rejected answer.",
    "kto": "each row is one answer with a label, true or false.",
    "sft": "each row is a prompt with the answer that was preferred.",
    "arena": "each row is one vote with both answers, ties and both-bad included.",
}
USAGES: dict[ExportFormat, str] = {
    "dpo": "`trl.DPOTrainer` takes these rows as they are: conversational, with an explicit prompt.",
    "kto": "`trl.KTOTrainer` takes these rows as they are: conversational, unpaired.",
    "sft": "`trl.SFTTrainer` takes these rows as they are: conversational prompt and completion.",
    "arena": "Bradley-Terry rankings read `model_a`, `model_b` and `winner`.",
}
TAGS: dict[ExportFormat, list[str]] = {
    "dpo": ["dpo", "trl"],
    "kto": ["kto", "trl"],
    "sft": ["sft", "trl"],
    "arena": ["arena"],
}
REASONS: dict[Reason, str] = {
    "held_out": "a question that is held out to measure models",
    "tie": "ties",
    "both_bad": "both answers bad",
    "identical_texts": "a side chosen between identical texts",
}
PAIR_REASONS: dict[pairs.Reason, str] = {
    "one_answer": "questions with fewer than two different answers",
    "all_right": "questions that every answer got right, none with a clearly better confidence",
    "none_right": "questions that no answer got right, none with a clearly better confidence",
    "margin": "questions whose right and wrong answers differ by less than the margin",
    "unknown_question": "answers to questions outside the question bank",
    "held_out": "questions that are held out to measure models",
    "not_scored": "questions that only a judge can score",
    "no_confidence": "questions with no answer that ends with its confidence",
    "no_others": "questions of a kind of which no other question was answered with a claim",
}
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def dataset_card(
    statistics: ExportStatistics, row_type: type[ExportRow], guidelines: str
) -> DatasetCard:
    """Return the card of an exported preference data set.

    `guidelines` is the file, beside the card, with the instructions that raters were given. The
    licence stays open where nobody has chosen one.
    """
    data = DatasetCardData(
        pretty_name=f"Preference votes between model stages ({statistics.format})",
        license=statistics.licence,
        task_categories=["text-generation"],
        tags=["preference", "human-feedback", "assay", *TAGS[statistics.format]],
        size_categories=[size_category(statistics.rows)],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": statistics.rows_file}],
            }
        ],
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(PREFERENCES),
        statistics=statistics,
        summary=SUMMARIES[statistics.format],
        usage=USAGES[statistics.format],
        reasons=REASONS,
        columns=[(name, field.description) for name, field in row_type.model_fields.items()],
        origin_fields=[f"`{name}`" for name in AnswerOrigin.model_fields],
        guidelines=guidelines,
        agreement_names=NAMES,
        cell=cell,
    )
    return DatasetCard(card.content)


def pairs_card(statistics: pairs.PairStatistics) -> DatasetCard:
    """Return the card of a data set of pairs that a rule made; it says so before anything else."""
    data = DatasetCardData(
        pretty_name="Preference pairs made from verifier verdicts",
        task_categories=["text-generation"],
        tags=["preference", "synthetic", "assay", *TAGS["dpo"]],
        size_categories=[size_category(statistics.rows)],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": statistics.rows_file}],
            }
        ],
    )
    columns = [(name, field.description) for name, field in pairs.PairRow.model_fields.items()]
    card = DatasetCard.from_template(
        data,
        template_path=str(PAIRS),
        statistics=statistics,
        usage=USAGES["dpo"],
        reasons=PAIR_REASONS,
        columns=columns,
        origin_fields=[f"`{name}`" for name in pairs.SampleOrigin.model_fields],
        cell=cell,
    )
    return DatasetCard(card.content)


def filled_in(template: Path, **values: object) -> str:
    """Return a template's text with its places filled in; a place without a value is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["cell"] = cell
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def cell(text: object) -> str:
    """Return something as it can stand in a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def size_category(rows: int) -> str:
    """Return the Hub's word for how many rows there are."""
    return next((name for limit, name in SIZES if rows < limit), "n>1M")
