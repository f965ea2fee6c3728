"""`assay hub`: a Hub on this machine, to rehearse publishing."""

from pathlib import Path
from typing import Annotated

import typer

from lab.console import notes

app = typer.Typer(no_args_is_help=True, help="A Hub on this machine, to rehearse publishing.")

PORT = 7870
TOKEN = "hf_local"


@app.callback()
def about() -> None:
    """A Hub on this machine, to rehearse publishing."""


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = PORT,
    folder: Annotated[
        Path | None, typer.Option(help="Where repositories are kept. Default: the user's data.")
    ] = None,
    xet: Annotated[
        bool, typer.Option("--xet", help="Take large files by xet instead of LFS.")
    ] = False,
) -> None:
    """Serve a Hub of your own at http://127.0.0.1:7870, to try a publication without the internet.

    It speaks the Hub's protocol as far as huggingface_hub, transformers, peft, datasets and `hf` use
    it: repositories, uploads, commits, tags, pull requests, private and gated repositories. Only this
    machine reaches it. Publishing to it says that the files and the order of requests are right; it
    is no promise that huggingface.co takes them.

    Example: assay hub serve --port 7870
    """
    from platformdirs import user_data_path

    from hub.local import Hub, Options
    from hub.local import serve as start

    place = folder or user_data_path("assay", appauthor=False) / "hub"
    kept = place / "xet" if xet else None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    hub = Hub(place, Options(tokens={TOKEN: "you"}, xet=kept))
    notes.print(f"A Hub of your own runs at http://127.0.0.1:{port} (stop: Ctrl C)")
    notes.print(f"It keeps its repositories in {place}", soft_wrap=True)
    notes.print("In another terminal, tell every Hub client about it:")
    notes.print(f"  export HF_ENDPOINT=http://127.0.0.1:{port} HF_TOKEN={TOKEN}", soft_wrap=True)
    if not xet:
        notes.print("  export HF_HUB_DISABLE_XET=1")
    notes.print("then, for example:")
    notes.print("  assay publish adapter training/embedded/grpo --repo you/my-first --dry-run")
    start(hub, port)
