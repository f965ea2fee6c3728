"""`assay review`: papers reviewed, what was said read, cleaned, scored, merged and reported, and held against the paper."""

import typer

from lab.commands.review import infer, scores, validity

app = typer.Typer(no_args_is_help=True, help="Peer review: read, clean, score, merge and compare concerns.")
app.command()(scores.score)
app.command()(scores.ensemble)
app.command()(infer.infer)
app.add_typer(validity.insertion, name="insertion")
app.command()(validity.checks)
app.command()(scores.parse)
app.command()(scores.clean)
