"""`assay review`: papers reviewed, what was said read, cleaned, scored, merged and reported, and held against the paper."""

import typer

from lab.commands import command
from lab.commands.review import infer, scores

app = typer.Typer(no_args_is_help=True, help="Peer review: read, clean, score, merge and compare concerns.")
command(app)(scores.score)
command(app)(scores.ensemble)
command(app)(infer.infer)
app.add_typer(scores.insertion, name="insertion")
command(app)(scores.checks)
command(app)(scores.parse)
command(app)(scores.clean)
