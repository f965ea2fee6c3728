"""One module per noun of the `assay` command; each exposes a typer `app` or one function."""
