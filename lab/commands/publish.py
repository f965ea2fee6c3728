"""`assay publish`: adapters, data sets and Spaces to the Hub, or a dry run into a folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evals.errors import LabError
from evals.io import as_jsonl, read_rows
from evals.report import load_report
from lab.commands import FileSettings, InFile, LicenceOption, command
from lab.commands.terminal import as_table, emit, notes, plural, progress_shown, standings_markdown
from lab.publishing import check_order, pack
from lab.services import REPORTS
from lab.settings import EMBEDDED, from_environment
from training.models.manifest import chain_file

if TYPE_CHECKING:
    from evals.schema.runs import Diagnostic
    from hub.adapters import Publication
    from hub.checks import PublishPlan, Upload
    from hub.client import Receipt

app = typer.Typer(
    no_args_is_help=True, help="Publish to the Hub: checked first, private unless --public, verified after the upload."
)


class Destination(FileSettings):
    """Settings of where something is published, and who shall see it there."""

    repo: Annotated[str, typer.Option()]
    """The repository: ORG/NAME."""
    dry_run: bool = False
    """Check and show the plan; write nothing."""
    out: Annotated[Path | None, typer.Option(metavar="DIR")] = None
    """A dry run that also writes the files of each repository below DIR."""
    public: bool = False
    """Make it public, once it is verified."""
    create_pr: bool = False
    """Open a pull request, for a repository that is not yours."""
    replace: bool = False
    """Replace files that Assay did not publish, or another base."""
    resource_group: Annotated[str | None, typer.Option(metavar="ID")] = None
    """Create new repositories in this resource group of the organisation."""
    collection: Annotated[str | None, InFile()] = None
    """Add it to your collection of this name, created if needed."""

    @property
    def is_dry(self) -> bool:
        """Whether nothing is sent."""
        return self.dry_run or self.out is not None

    def keep(self, upload: "Upload") -> None:
        """Write the files of a repository below `out`, under its name, where that was asked for."""
        if self.out is None:
            return
        for path, part in upload.parts.items():
            file = self.out / upload.repo / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with part.open() as source, file.open("wb") as copy:
                copyfileobj(source, copy)


class RunFolderSettings(FileSettings):
    """Settings of what of a run is published, and on which base."""

    run: Path
    """A finished run folder, such as runs/grpo."""
    tag: str = "v1.0"
    """The version; a published one never changes."""
    licence: LicenceOption = None
    """A licence id of the Hub, such as apache-2.0."""
    base: Annotated[str | None, typer.Option(metavar="ORG/NAME[@COMMIT]")] = None
    """A base on the Hub to pin, at COMMIT or its newest; refused unless its weights are the same. @COMMIT alone pins the
    base that the run names."""
    with_base: Annotated[bool | None, typer.Option("--with-base/--no-base")] = None
    """Publish a copy of the base too, to ORG/NAME-base or --base. The default for the embedded base, which is not on the
    Hub."""
    merged: Annotated[bool, InFile()] = False
    """Publish one merged model instead of one joined adapter."""

    def publication(self, repo: str) -> "Publication":
        """Return how the run is published to a repository."""
        from hub.adapters import Publication

        base, _, revision = (self.base or "").partition("@")
        return Publication(repo, self.tag, base or None, revision or None, self.licence)


class AdapterSettings(RunFolderSettings, Destination):
    """Settings of `assay publish adapter`."""


class CardSettings(RunFolderSettings):
    """Settings of `assay publish card`."""

    repo: str | None = None
    """The repository that the adapter will have: ORG/NAME."""


class DatasetSettings(Destination):
    """Settings of `assay publish dataset`."""

    folder: Path
    """A folder of rows or of reports of `assay eval run`, or a question set: its file or its name."""
    tag: str = "v1.0"
    """The version; a published one never changes."""
    licence: LicenceOption = None
    """A licence id of the Hub, such as apache-2.0."""
    collection: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """Add it to your collection of this name, created if needed."""


class SpaceSettings(Destination):
    """Settings of `assay publish space`."""

    name: str
    """lab, leaderboard, arena, reviewer, or a metric: stated_calibration, …"""
    answers: Annotated[list[str] | None, typer.Option(metavar="FILE|ORG/NAME")] = None
    """What a leaderboard or an arena shows: reports of `assay eval run`, for an arena also a data set on the Hub. Default:
    those of the embedded chain. Repeatable."""
    hardware: str | None = None
    """Hardware: cpu-basic, zero-a10g (ZeroGPU), t4-small, …; some cost money."""
    volume: list[str] | None = None
    """A bucket or repository to mount: hf://buckets/ORG/NAME:/data. Repeatable."""
    secret: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None
    """A secret, with the value of your environment variable NAME. Repeatable."""
    variable: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None
    """A variable that everybody may read. Repeatable."""
    resource_group: Annotated[str | None, InFile()] = None
    """Create new repositories in this resource group of the organisation."""
    card: Annotated[Path | None, InFile()] = None
    """A folder with card.md: your own words for the Space's card."""
    tag: Annotated[str | None, InFile()] = None
    """The version; none if not given."""


@command(app)
def adapter(settings: AdapterSettings) -> None:
    """Publish an adapter with its card, after the base and the stages below it.

    Earlier stages go to repositories of their own, ORG/NAME-STAGE, and are pinned by their commits; so does a base that is
    not on the Hub. Each repository holds the chain up to its stage as one adapter, which `from_pretrained` loads. After a
    failure run it again: it resumes, or reports that everything is there.

    Example: assay publish adapter training/embedded/grpo --repo my-org/my-adapter --dry-run
    Example: assay publish adapter runs/dpo --repo my-org/other --base my-org/my-adapter-base
    """
    from hub.chains import members, plan_chain, publish_chain
    from hub.client import connect
    from hub.publish import check_title

    run = chain_file(settings.run).parent  # by its name in ASSAY_RUNS, too
    check_title(settings.collection)
    wanted = replace(
        settings.publication(settings.repo),
        is_public=settings.public,
        is_pull_request=settings.create_pr,
        replaces=settings.replace,
        resource_group=settings.resource_group,
    )
    check_order(run, wanted, settings.with_base)
    how = (from_environment().cache, settings.with_base, settings.merged)
    with pack(run, wanted, progress_shown, *how, is_dry=settings.is_dry) as wanted:
        if settings.is_dry:
            _show_plans(plan_chain(connect(), run, wanted, settings.keep), settings)
            return
        receipts = publish_chain(connect(), run, wanted, _tell)
    _show_receipts(receipts, as_json=settings.as_json)
    _collect(settings, members(run, wanted, receipts))


@command(app)
def dataset(settings: DatasetSettings) -> None:
    """Publish a data set: its rows must be readable, its raters hashed, its licence chosen.

    The card is the README.md in the folder, which the commands that write rows make. Without one, question sets and
    reports get a card with their figures, other rows one with columns and checksums. E-mail addresses and telephone
    numbers in the rows are warnings, with file and line.

    Example: assay publish dataset preferences --repo my-org/votes --license cc-by-4.0 --dry-run
    Example: assay publish dataset my-questions.yaml --repo my-org/questions --license cc-by-4.0 --dry-run
    Example: assay publish dataset kmp-test --repo my-org/kmp-test --license apache-2.0
    Example: assay publish dataset reports --repo my-org/answers --license apache-2.0
    """
    from hub.client import check_receipts, write_receipt
    from hub.datasets import pack_dataset

    folder = settings.folder
    place = folder if folder.is_dir() else folder.parent
    upload = pack_dataset(folder, settings.repo, settings.licence, settings.tag)
    if folder.exists() and not settings.is_dry:
        check_receipts(place)
    receipt = _publish(upload, settings, settings.tag)
    if receipt and folder.exists():
        write_receipt(receipt, place)


def _publish(
    upload: "Upload", to: Destination, tag: str | None, options: "Mapping[str, Any] | None" = None
) -> "Receipt | None":
    """Show the plan, or publish and show the receipt, which is returned. `options` are those of a Space."""
    from hub.client import connect
    from hub.publish import check_title, plan, publish
    from hub.spaces import configure

    check_title(to.collection)
    upload = replace(upload, tag=tag, is_public=to.public, is_pull_request=to.create_pr, replaces=to.replace)
    upload = replace(upload, resource_group=to.resource_group)
    planned = plan(connect(), upload)
    if to.is_dry:
        to.keep(upload)
        _show_plans([planned], to)
        return None
    _warn(planned.warnings)
    if options and not planned.is_new:
        configure(connect(), to.repo, options)
    receipt = publish(connect(), upload, _tell, options=options)
    _show_receipts([receipt], as_json=to.as_json)
    _collect(to, [(receipt.repo, receipt.kind)])
    return receipt


def _collect(to: Destination, repos: "Sequence[tuple[str, str]]") -> None:
    """Put what was published into the collection that was named, if one was."""
    if to.collection:
        from hub.client import connect
        from hub.publish import collect

        made = collect(connect(), to.collection, repos, is_public=to.public, resource_group=to.resource_group)
        _tell(f"The collection: {made}")


@command(app)
def card(settings: CardSettings) -> None:
    """Write an adapter's card into its run folder, and list its faults.

    Works offline. Every word comes from run.json, chain.json, the reports beside them, and card.md in the run folder: your
    own words, with authors, contact, language, tags and licence in its front matter. A README.md that you edited is not
    overwritten.

    Example: assay publish card runs/grpo --repo my-org/my-adapter
    """
    from hub.cards import write_card
    from hub.chains import pack_last
    from hub.checks import lint_card

    run = chain_file(settings.run).parent
    wanted = settings.publication(settings.repo or f"your-name/{run.resolve().name}")
    how = (from_environment().cache, settings.with_base, settings.merged)
    with pack(run, wanted, progress_shown, *how) as wanted:
        parts = pack_last(run, wanted).parts
    text = parts["README.md"].text()
    write_card(run / "README.md", text)
    _tell(f"wrote {run / 'README.md'}")
    if settings.repo is None:
        _tell("Without --repo, the card's code loads from your-name/….")
    found = lint_card(text, "model", parts)
    _tell(f"The card has {plural(len(found), 'fault') if found else 'no faults'}.")
    emit(found, as_json=settings.as_json, table="What to correct" if found else None)


def _tell(words: str) -> None:
    notes.print(words, soft_wrap=True)


def _show_plans(plans: "Sequence[PublishPlan]", to: Destination) -> None:
    """Show what publishing would do."""
    emit(plans, as_json=to.as_json)
    for plan in () if to.as_json else plans:
        what = "a pull request on" if plan.is_pull_request else "new" if plan.is_new else "existing"
        seen = f"{plan.visibility}, tag {plan.tag or 'none'}: {plan.upload_bytes:,} bytes to upload"
        title = f"{what} {plan.repo} at {plan.endpoint}, {seen}"
        emit(plan.files, as_json=False, table=title)
        _warn(plan.warnings)
    zeros = ", where commits that publishing will make are written as zeros" if len(plans) > 1 else ""
    notes.print(f"This was a dry run: nothing was written{f' but {to.out}{zeros}' if to.out else ''}.")


def _show_receipts(receipts: "Sequence[Receipt]", *, as_json: bool) -> None:
    """Show what was published."""
    title = f"Verified by download: {plural(sum(len(each.files) for each in receipts), 'file')}"
    names = ("repo", "outcome", "pull_request", "visibility", "tag", "revision")
    emit(receipts, as_json=as_json, table=as_table(title, receipts, *names))


def _warn(found: "Sequence[Diagnostic]") -> None:
    """Show what a person should look at before they publish."""
    for each in found:
        notes.print(f"note: {each}", style="yellow", soft_wrap=True)


@command(app)
def space(settings: SpaceSettings) -> None:
    """Publish a Space: the whole lab, a leaderboard, an arena for votes, a reviewer, or a metric.

    Its README says which variables and secrets it reads. The Hub then builds it: its log stands on the Space's page.

    Example: assay publish space arena --repo my-org/arena --dry-run
    Example: assay publish space arena --repo my-org/arena --answers reports/mine.json --hardware zero-a10g --variable ASSAY_VOTES_REPO=my-org/votes --secret HF_TOKEN
    Example: assay publish space leaderboard --repo my-org/board --answers a/kmp-test.json --answers b/kmp-test.json
    """
    from hub.cards import NO_OWN, read_own
    from hub.spaces import bundle_folder, pack_space, space_options

    name, answers = settings.name, settings.answers or []
    set_there = (settings.volume or [], settings.secret or [], settings.variable or [])
    options = space_options(settings.hardware, *set_there, os.environ)
    if options and settings.create_pr:
        raise LabError(
            "--create-pr proposes files; only the owner of a Space sets its hardware, volumes, secrets and variables."
        )
    if answers and name not in ("leaderboard", "arena"):
        raise LabError(f"--answers is for a leaderboard or an arena; {name} shows no answers. Leave it out.")
    made = (
        _board([Path(each) for each in answers])
        if name == "leaderboard"
        else _recorded_answers(answers)
        if answers
        else {}
    )
    own = read_own(settings.card) if settings.card else NO_OWN
    upload = pack_space(bundle_folder(name), settings.repo, made, own=own)
    if receipt := _publish(upload, settings, settings.tag, options):
        _tell(f"The Space, and the log of its build: {receipt.endpoint}/spaces/{settings.repo}")


def _board(files: list[Path]) -> dict[str, bytes]:
    """Return the leaderboard as a page, and the reports it was written from; a name that is taken gets a number."""
    from markdown_it import MarkdownIt

    from evals.leaderboard import standings
    from hub.cards import render

    paths = files or sorted((chain_file(EMBEDDED).parent / REPORTS).glob("*.json"))
    _tell(f"writing the page from {len(paths)} reports")
    text = standings_markdown(standings([load_report(path) for path in paths]))
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    made = {"index.html": render("page.html", title="Leaderboard", body=body).encode()}
    for path in paths:
        names = chain([path.name], (f"{path.stem}-{number}{path.suffix}" for number in count(2)))
        made[next(place for name in names if (place := f"{REPORTS}/{name}") not in made)] = path.read_bytes()
    return made


def _recorded_answers(sources: "Sequence[str]") -> dict[str, bytes]:
    """Return the file of answers that an arena shows, from reports here or in data sets of the Hub."""
    from evals.questions import is_held_out
    from evals.schema import Answer
    from hub.client import connect
    from hub.datasets import fetch_files
    from lab.session import ANSWERS, Recorded, answers_of

    found: list[Answer] = []
    for source in sources:
        is_here = Path(source).exists()
        for file in [Path(source)] if is_here else fetch_files(connect(), source, ("*.json", ANSWERS)):
            if file.name.endswith(".jsonl"):
                found += read_rows(file, Answer)
                continue
            try:
                found += answers_of(load_report(file))
            except LabError:
                if is_here:  # a data set holds other files too
                    raise
    recorded = Recorded(found)
    held_out = sum(is_held_out(question) for question in recorded.questions)
    _tell(
        f"The arena shows {plural(len(recorded.answers), 'answer')} to {plural(len(recorded.questions), 'question')}"
        + (f"; {held_out} of these are held out, so votes on them never train." if held_out else ".")
    )
    return {ANSWERS: as_jsonl(recorded.answers).encode()}
