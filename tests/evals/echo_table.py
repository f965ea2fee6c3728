"""The table of docs/review-scoring.md: lists that object to nothing, and the embedded reviewer, scored as systems.

python -m tests.evals.echo_table CORPUS          the folder of `assay data review --corpus a --out CORPUS`
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evals.io import read_rows
from evals.review.clean import Cleaning, clean
from evals.review.controls import OBJECTION, generic_concerns
from evals.review.match import panel_of
from evals.review.page import number_with_interval, told_strongest
from evals.review.score import Scored, ScoreOptions, control_rates, measuring_of, paper_of, read_library, review_report
from evals.schema.articles import PaperRow
from evals.schema.reviews import PredictionRow, ReferenceRow
from lab.commands.review.infer import find_cached

SHIPPED = Path(__file__).parents[2] / "training" / "embedded" / "review" / "reports" / "held-out.jsonl"


def table(corpus: Path, encoder: str = "embedded") -> Table:
    """Return a row for each list: above permuted papers, as the headline was, and above the strongest control, as it is."""
    test = corpus / "test.jsonl"
    written = list(read_rows(SHIPPED, PredictionRow))
    papers = {row.article_id: paper_of(row) for row in read_rows(test, PaperRow)}
    copies = {row.article_id: papers[row.article_id].copied(len(row.concerns)) for row in written}
    systems = {
        "embedded reviewer": {row.article_id: row.concerns for row in written},
        "sentences copied from the paper": copies,
        "“It was not stated that” + those": {
            name: [OBJECTION + each[:1].lower() + each[1:] for each in said] for name, said in copies.items()
        },
        "title + generic list": {
            name: [f"{papers[name].title}: {each}" for each in generic_concerns()[: len(said)]]
            for name, said in copies.items()
        },
    }
    found = Table("list", "recall", "precision", "F1", "above permuted", "above the strongest", "strongest control")
    for name, said in systems.items():
        rows = [PredictionRow.model_validate({"article_id": of, "concerns": each}) for of, each in said.items()]
        panel = panel_of(read_rows(test, ReferenceRow), [clean(row, Cleaning(cap=20)).row for row in rows])
        library = read_library(test, None, corpus / "train.jsonl")
        measuring = measuring_of(panel, ScoreOptions(encoder), find_cached, library)
        report = review_report({name: Scored(panel, measuring)})
        metrics = ("recall", "precision", "f1", "f1_above_permuted", "f1_above_strongest")
        cells = [number_with_interval(report.summaries[0].metrics[each]) for each in metrics]
        found.add_row(name, *cells, told_strongest(report.stages[name], control_rates(report.rows)))
    return found


if __name__ == "__main__":
    Console(width=200).print(table(Path(sys.argv[1])))
