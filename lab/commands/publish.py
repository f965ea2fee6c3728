"""`assay hub`: a Hub on this machine, to rehearse publishing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import LabError
from lab.commands.tables import counted, emit, notes, table_of
from lab.settings import from_environment

if TYPE_CHECKING:
    from evals.schema import BaseIdentity
    from hub.adapters import Wishes
    from hub.bases import BaseCopy
    from hub.chains import Publication

EMBEDDED = "embedded"


def publication_of(run: Path, wishes: "Wishes", with_base: bool | None) -> "Publication":
    """Return how a chain is published; imports torch where a copy of the base is published or compared.

    `with_base` None = the embedded base goes along, unless one on the Hub was named; any other base only
    when it is asked for. LabError for wishes that contradict each other.
    """
    from hub.chains import Publication
    from hub.runs import read_run

    base = read_run(run).manifest.base
    is_named = wishes.base is not None or wishes.base_revision is not None
    _refuse_contradictions(base, wishes, with_base)
    is_embedded = base.source == EMBEDDED and base.revision is None
    goes_along = is_embedded and not is_named if with_base is None else with_base
    needs_copy = goes_along or (is_embedded and is_named)
    copy = _copy(run, None if goes_along else _publish_base_named(wishes)) if needs_copy else None
    return Publication(wishes, copy=copy, with_base=goes_along)


def _publish_base_named(wishes: "Wishes") -> str:
    """Return the options that named a base on the Hub, as they were given."""
    given = {"--base": wishes.base, "--base-revision": wishes.base_revision}
    return " ".join(f"{option} {value}" for option, value in given.items() if value is not None)


def _refuse_contradictions(base: "BaseIdentity", wishes: "Wishes", with_base: bool | None) -> None:
    if not with_base:
        return
    if base.hub_id and base.revision:
        raise LabError(
            f"the chain stands on {base.hub_id} at {base.revision}, which is on the Hub already; leave --with-base out."
        )
    if wishes.base_revision is not None:
        raise LabError(
            f"--base-revision {wishes.base_revision} pins a base that is on the Hub, and --with-base publishes"
            " one; leave one of them out."
        )


def _copy(run: Path, named: str | None) -> "BaseCopy":
    """Return the base that a chain was trained on as it lies on this machine, unpacked if need be."""
    from hub.bases import BaseCopy
    from training.models.base import find_base, licence_file, origin_of
    from training.models.chain import base_source, read_chain

    cache = from_environment().cache
    source = base_source(read_chain(run), cache)
    with notes.status("looking for the base") as status:
        base = find_base(source, lambda _, message: status.update(message), cache)
    return BaseCopy(base.folder, origin_of(base, named), licence_file(base))


if TYPE_CHECKING:
    from evals.schema.publishing import Finding, PublishPlan, Receipt
    from hub.adapters import Wishes

app = typer.Typer(
    no_args_is_help=True,
    help="Publish to the Hub: checked first, private unless you say otherwise, verified afterwards.",
)

Repo = Annotated[str, typer.Option("--repo", help="Where to: ORG/NAME.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and show the plan; write nothing anywhere.")]
Public = Annotated[bool, typer.Option("--public", help="Let everybody see it, once it is verified.")]
CreatePr = Annotated[
    bool,
    typer.Option("--create-pr", help="Propose it as a pull request, for repositories of others."),
]
Tag = Annotated[str, typer.Option("--tag", help="The version; one that is there never changes.")]
Licence = Annotated[str | None, typer.Option("--license", help="A licence id of the Hub, such as apache-2.0.")]
BaseName = Annotated[
    str | None,
    typer.Option("--base", help="A base on the Hub to pin; refused unless its weights are the same."),
]
BaseRevision = Annotated[str | None, typer.Option("--base-revision", help="Its commit; else what is there now.")]
WithBase = Annotated[
    bool | None,
    typer.Option(
        "--with-base/--no-base",
        help="Publish a copy of the base too, to ORG/NAME-base or where --base says. Done without"
        " asking for the embedded base, which the Hub does not hold.",
    ),
]
MaxFile = Annotated[float, typer.Option("--max-file-gb", help="Refuse larger files than this.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Probe = Annotated[bool, typer.Option("--probe", help="Also load what was published and compare the stored probe.")]


@app.command()
def adapter(
    run: Annotated[Path, typer.Argument(help="A finished run folder, such as runs/grpo.")],
    repo: Repo,
    dry_run: DryRun = False,
    public: Public = False,
    create_pr: CreatePr = False,
    tag: Tag = "v1.0",
    licence: Licence = None,
    base: BaseName = None,
    base_revision: BaseRevision = None,
    with_base: WithBase = None,
    probe: Probe = False,
    max_file_gb: MaxFile = 2.0,
    as_json: Json = False,
) -> None:
    """Publish an adapter with its card, and before it every stage that it stands on, and its base.

    Earlier stages go to repositories of their own, ORG/NAME-STAGE, and are pinned by their commits; so
    does a base that the Hub does not hold. Run again after a failure: it goes on, or says that all is there.

    Example: assay publish adapter training/embedded/grpo --repo my-org/my-adapter --dry-run
    Example: assay publish adapter runs/dpo --repo my-org/other --base my-org/my-adapter-base
    """
    from hub.adapters import Wishes
    from hub.chains import plan_chain, publish_chain
    from hub.checks import GIGABYTE, Limits
    from hub.client import connect

    pass

    limits = Limits(file_bytes=round(max_file_gb * GIGABYTE))
    wishes = Wishes(repo, tag, base, base_revision, licence, limits)
    chosen = publication_of(run, wishes, with_base)
    publication = replace(chosen, is_public=public, is_pull_request=create_pr)
    if dry_run:
        show_plans(plan_chain(connect(), run, publication), as_json=as_json)
        return
    prove = _probe() if probe else None
    receipts = publish_chain(connect(), run, publication, tell, prove)
    show_receipts(receipts, as_json=as_json)


@app.command()
def dataset(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder of rows, or of reports of `assay eval run`, or the file of a question set."),
    ],
    repo: Repo,
    dry_run: DryRun = False,
    public: Public = False,
    create_pr: CreatePr = False,
    tag: Tag = "v1.0",
    licence: Licence = None,
    max_file_gb: MaxFile = 2.0,
    parquet: Annotated[bool, typer.Option("--parquet", help="Put the rows in once more as parquet.")] = False,
    as_json: Json = False,
) -> None:
    """Publish a data set: its rows must be readable, its raters hashed, its licence chosen.

    A folder without a README.md gets a card if its rows are a question set, concerns, reviews to train
    on, or judged answers: figures, columns, checksums and, where several people labelled the same, their agreement.
    E-mail addresses and telephone numbers in the rows are told as warnings, with file and line.

    Example: assay publish dataset preferences --repo my-org/votes --license cc-by-4.0 --dry-run
    Example: assay publish dataset my-questions.yaml --repo my-org/questions --license cc-by-4.0 --dry-run
    Example: assay publish dataset reports --repo my-org/answers --license apache-2.0 --parquet
    """
    from hub.checks import GIGABYTE, Limits
    from hub.client import connect
    from hub.datasets import pack_dataset
    from hub.plan import Target
    from hub.publish import Steps, plan, publish, write_receipt

    limits = Limits(file_bytes=round(max_file_gb * GIGABYTE))
    parcel = pack_dataset(folder, repo, licence, limits, parquet)
    target = Target(repo, tag, public, create_pr)
    planned = plan(connect(), parcel, target, limits)
    if dry_run:
        show_plans([planned], as_json=as_json)
        return
    warn(planned.warnings)
    receipt = publish(connect(), parcel, target, limits, Steps(tell))
    write_receipt(receipt, folder if folder.is_dir() else folder.parent)
    show_receipts([receipt], as_json=as_json)


@app.command()
def card(
    run: Annotated[Path, typer.Argument(help="A run folder, or any README.md, also someone else's.")],
    repo: Annotated[str | None, typer.Option("--repo", help="Where the adapter will lie: ORG/NAME.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Look for faults; exit code 1 if there are any.")] = False,
    kind: Annotated[str, typer.Option("--kind", help="What the card is of: model, dataset or space.")] = "model",
    tag: Tag = "v1.0",
    licence: Licence = None,
    base: BaseName = None,
    base_revision: BaseRevision = None,
    with_base: WithBase = None,
    as_json: Json = False,
) -> None:
    """Write an adapter's card into its run folder, or with --check look for faults in any card.

    Works offline. Every word comes from run.json, chain.json and the reports beside them; the calibration
    plots are written beside it.

    Examples: assay publish card runs/grpo --repo my-org/my-adapter;
    assay publish card somebody/README.md --check
    """
    from hub.adapters import Wishes
    from hub.cards.lint import lint_card

    files: set[str] | None = None
    if check and (run.is_file() or (run / "README.md").is_file()):
        file = run if run.is_file() else run / "README.md"
        files = {each.relative_to(file.parent).as_posix() for each in file.parent.rglob("*")}
        text = file.read_text(encoding="utf-8", errors="replace")
    else:
        wishes = Wishes(repo or f"your-name/{run.resolve().name}", tag, base, base_revision, licence)
        parts = _card_parts(run, wishes, with_base)
        text = parts["README.md"].decode()
        if not check:
            _write_card(run, parts, has_repo=repo is not None)
    found = lint_card(text, kind, files)
    _show_findings(found, as_json=as_json)
    if check and any(each.is_error for each in found):
        raise typer.Exit(1)


def _card_parts(run: Path, wishes: "Wishes", with_base: bool | None) -> dict[str, bytes]:
    """Return the card and the plots that it shows."""
    from hub.chains import pack_last

    pass

    parcel = pack_last(run, publication_of(run, wishes, with_base))
    names = [name for name in parcel.parts if name == "README.md" or name.endswith(".png")]
    return {name: parcel.parts[name].read() for name in names}


def _write_card(run: Path, parts: dict[str, bytes], *, has_repo: bool) -> None:
    for name, content in parts.items():
        unfinished = run / f".{name}.part"
        unfinished.write_bytes(content)
        unfinished.replace(run / name)
        notes.print(f"wrote {run / name}", soft_wrap=True)
    if not has_repo:
        notes.print("No --repo was named, so the card's code loads from your-name/….")


def _probe() -> "Callable[[Path], None]":
    """Return a proof that loads the chain and compares what it computes; imports torch when it runs."""

    def prove(folder: Path) -> None:
        from lab.settings import from_environment
        from training.models.chain import check_chain

        findings = check_chain(folder, cache=from_environment().cache)
        wrong = [each for each in findings if not each.is_ok]
        if wrong:
            raise LabError(
                "what was published computes something else: "
                + "; ".join(f"{each.subject}, {each.check}: {each.detail}" for each in wrong)
            )

    return prove


def tell(words: str) -> None:
    """Show how far publishing is."""
    notes.print(words, soft_wrap=True)


def show_plans(plans: "Sequence[PublishPlan]", *, as_json: bool) -> None:
    """Show what publishing would do."""
    emit(plans, as_json=as_json)
    for plan in () if as_json else plans:
        signs = {"add": "+", "change": "~", "same": "=", "remote_only": "only there"}
        rows = [(signs[each.change], each.path, f"{each.size:,}") for each in plan.files]
        what = "a pull request on" if plan.is_pull_request else "new" if plan.is_new else "existing"
        title = (
            f"{what} {plan.repo} at {plan.endpoint}, {plan.visibility}, tag {plan.tag or 'none'}: "
            f"{plan.upload_bytes:,} bytes to upload"
        )
        emit(None, as_json=False, table=table_of(title, ("", "file", "bytes"), rows))
        warn(plan.warnings)
    notes.print("This was a dry run: nothing was written.")


def show_receipts(receipts: "Sequence[Receipt]", *, as_json: bool) -> None:
    """Show what was published."""
    rows = [
        (
            each.repo,
            f"{each.outcome}, pull request {each.pull_request}" if each.pull_request else each.outcome,
            each.visibility,
            each.tag or "",
            each.revision,
        )
        for each in receipts
    ]
    columns = ("repository", "", "visibility", "tag", "commit")
    title = f"Verified by download: {counted(sum(len(each.files) for each in receipts), 'file')}"
    emit(receipts, as_json=as_json, table=table_of(title, columns, rows))


def _show_findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    rows = [("error" if each.is_error else "warning", each.line or "", each.problem, each.remedy) for each in found]
    title = "What is wrong with the card" if found else "Nothing is wrong with the card"
    columns = ("", "line", "what and why", "what to do")
    emit(found, as_json=as_json, table=table_of(title, columns, rows))


def warn(found: "Sequence[Finding]") -> None:
    """Show what a person should look at before they publish."""
    for each in found:
        place = f"{each.path}{f', line {each.line}' if each.line else ''}"
        notes.print(f"note: {place}: {each.problem}; {each.remedy}", style="yellow", soft_wrap=True)


BOARD = "leaderboard"


def space(
    name: Annotated[
        str,
        typer.Argument(help="lab, leaderboard, arena, reviewer, or a metric: stated_calibration, …"),
    ],
    repo: Repo,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            help="What the leaderboard shows, of one chain or of several side by side; else the reports of"
            " the embedded chain.",
        ),
    ] = None,
    dry_run: DryRun = False,
    public: Public = False,
    create_pr: CreatePr = False,
    tag: Annotated[str | None, typer.Option("--tag", help="Also set a version.")] = None,
    as_json: Json = False,
) -> None:
    """Publish a Space: the whole lab, a leaderboard, an arena for votes, a reviewer, or a metric.

    Its README says what it is told by variables and secrets; set those on the Space's settings page.

    Example: assay publish space arena --repo my-org/arena --dry-run
    Example: assay publish space leaderboard --repo my-org/board --report a/kmp-test.json --report b/kmp-test.json
    """
    from hub.checks import Limits
    from hub.client import connect
    from hub.plan import Target
    from hub.publish import Steps, plan, publish
    from hub.spaces import bundle_folder, pack_space

    folder = bundle_folder(name)
    made = _board(report or []) if name == BOARD else {}
    parcel = pack_space(folder, repo, made, Limits())
    target = Target(repo, tag, public, create_pr)
    planned = plan(connect(), parcel, target)
    if dry_run:
        show_plans([planned], as_json=as_json)
        return
    warn(planned.warnings)
    receipt = publish(connect(), parcel, target, steps=Steps(tell))
    show_receipts([receipt], as_json=as_json)
    notes.print(f"The Space: {receipt.endpoint}/spaces/{repo}", soft_wrap=True)


def _board(files: list[Path]) -> dict[str, bytes]:
    """Return the page of the leaderboard, and beside it the reports that it was written from."""
    from evals.report import load_report
    from lab.results.static_page import board_page
    from lab.services import REPORTS, chain_folder
    from lab.settings import EMBEDDED

    paths = files or sorted((chain_folder(EMBEDDED) / REPORTS).glob("*.json"))
    reports = [load_report(path) for path in paths]
    tell(f"writing the page from {len(reports)} reports")
    return {
        "index.html": board_page(reports).encode(),
        **{f"{REPORTS}/{name}": path.read_bytes() for name, path in _named(paths).items()},
    }


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files by a name for each: one whose name is taken gets the next number that is free."""
    named: dict[str, Path] = {}
    for path in paths:
        names = chain([path.name], (f"{path.stem}-{number}{path.suffix}" for number in count(2)))
        named[next(name for name in names if name not in named)] = path
    return named


hub = typer.Typer(no_args_is_help=True, help="A Hub on this machine, to rehearse publishing.")

PORT = 7870
TOKEN = "hf_local"


@hub.callback()
def about() -> None:
    """A Hub on this machine, to rehearse publishing."""


@hub.command()
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = PORT,
    folder: Annotated[Path | None, typer.Option(help="Where repositories are kept. Default: the user's data.")] = None,
    xet: Annotated[bool, typer.Option("--xet", help="Take large files by xet instead of LFS.")] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE:N", help="Answer the next N uploads with the error CODE. Repeatable."),
    ] = None,
) -> None:
    """Serve a Hub of your own at http://127.0.0.1:7870, to try a publication without the internet.

    It speaks the Hub's protocol as far as huggingface_hub, transformers, peft, datasets and `hf` use
    it: repositories, uploads, commits, tags, pull requests, private and gated repositories. Only this
    machine reaches it. Publishing to it says that the files and the order of requests are right; it
    is no promise that huggingface.co takes them.

    Example: assay hub serve --port 7870
    """
    from platformdirs import user_data_path

    from hub.local import Fault, Hub, Options
    from hub.local import serve as start

    faults = []
    for each in fault or ():
        code, _, times = each.partition(":")
        if not (code.isdecimal() and times.isdecimal() and 400 <= int(code) < 600):
            raise LabError(f"--fault {each}: give an HTTP error and a number of requests, such as 429:3.")
        faults.append(Fault(status=int(code), times=int(times)))
    place = folder or user_data_path("assay", appauthor=False) / "hub"
    kept = place / "xet" if xet else None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    hub = Hub(place, Options(tokens={TOKEN: "you"}, xet=kept))
    hub.faults += faults
    notes.print(f"A Hub of your own runs at http://127.0.0.1:{port} (stop: Ctrl C)")
    notes.print(f"It keeps its repositories in {place}", soft_wrap=True)
    notes.print("In another terminal, tell every Hub client about it:")
    notes.print(f"  export HF_ENDPOINT=http://127.0.0.1:{port} HF_TOKEN={TOKEN}", soft_wrap=True)
    if not xet:
        notes.print("  export HF_HUB_DISABLE_XET=1")
    notes.print("then, for example:")
    notes.print("  assay publish adapter training/embedded/grpo --repo you/my-first --dry-run")
    start(hub, port)
