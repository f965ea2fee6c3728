"""A finished run folder as it lies on disk, and as it is published: an allow-list of files and the card."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import yaml
from huggingface_hub import ModelCardData
from pydantic import ValidationError

from evals.confidence import Calibrator, OfStageT, StagePromise, read_of_stage
from evals.errors import LabError
from evals.facts import load_provenance
from evals.papers import demonstration
from evals.questions import conversation, load_questions
from evals.questions.prompt import ANSWER, OPEN, choices
from evals.refine.bank import refiner_bank
from evals.refine.task import messages
from evals.report import load_report
from evals.review.prompt import head_of, request, review_conversation, sections_of
from evals.schema import ChainManifest, ChainStage, Message, RunRecord
from evals.schema.reports import EvalReport, Report, ReviewReport
from evals.schema.runs import (
    DEMONSTRATION,
    IMPORTED,
    BaseOrigin,
    Diagnostic,
    Lineage,
    PublishedStage,
    is_demonstration,
    read_adapter_config,
)
from hub.cards import (
    HUB_IDS,
    TEMPLATES,
    OwnCard,
    Source,
    add_own,
    conflicts,
    duty,
    foreign_line,
    known_front_matter,
    licence_text,
    read_own,
    render,
    suggest_licence,
    unknown,
)
from hub.cards.figures import ReportTables, eval_results, evaluation_tables
from hub.checks import PICKLES, STATE, Part, Upload, fit_findings, inspect, part_of, size_finding
from hub.client import PublicationKind, finding, wording

PLAIN = "What can you help me with?"
ROLES = {"human": "user", "gpt": "assistant"}
"""ShareGPT's names of who speaks."""


class SamplePrompt(NamedTuple):
    """A prompt for the card and its source ("" = made up); where a report holds them, the stage's answer, its verdict and the right one."""

    messages: tuple[Message, ...]
    source: str
    answer: str | None = None
    verdict: str = ""
    right: str = ""


def example_of(
    task: str, stage: str, system_prompt: str, data: Sequence[str], reports: Iterable[Report[Any]]
) -> SamplePrompt:
    """Return a prompt from the reports of a run, else from its task or its data (names and paths), else a plain one."""
    for report in reports:
        if isinstance(report, EvalReport) and (row := next((r for r in report.rows if r.stage == stage), None)):
            _, _, right = row.example.answer.rpartition("Answer: ")
            verdict = row.verdict.verdict.replace("_", " ")
            return SamplePrompt(row.prompt, report.data_name, row.completion, verdict, right.partition("\n")[0])
    if task == "review":
        paper = next(each for each in demonstration() if each.split == "test").article
        methods = [f"## {name}\n{text}" for name, text in sections_of(paper) if name == "Methods"]
        text = request("\n\n".join((head_of(paper), *methods)))
        return SamplePrompt(review_conversation(text), "an invented paper")
    if task == "refine" and any(name.startswith("refiner-") for name in data):
        return SamplePrompt(messages(refiner_bank().test[0], system_prompt), "refiner-test")
    system = (Message(role="system", content=system_prompt),) if system_prompt else ()
    for name in data:
        try:
            return SamplePrompt(conversation(load_questions(name.split("[")[0])[0], system_prompt), name)
        except (LabError, OSError):
            pass
        if turns := _first_turns(Path(name)):
            return SamplePrompt((*(system if turns[0].role != "system" else ()), *turns), Path(name).name)
    return SamplePrompt((*system, Message(role="user", content=PLAIN)), "")


def _first_turns(file: Path) -> tuple[Message, ...]:
    """Return what the first row of a JSONL file asks, in TRL's or ShareGPT's form; nothing of another file."""
    try:
        file = next(iter(sorted(file.glob("*.jsonl"))), file) if file.is_dir() else file
        with file.open(encoding="utf-8") as lines:
            row = json.loads(next(lines))
        turns = row.get("prompt") or row.get("messages") or row.get("conversations") or row.get("question") or []
        turns = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
        texts = [(each.get("role") or each["from"], each.get("content") or each["value"]) for each in turns]
        found = [Message(role=ROLES.get(role, role), content=text) for role, text in texts]
    except (OSError, ValueError, StopIteration, AttributeError, KeyError, TypeError):
        return ()
    while found and found[-1].role == "assistant":
        found.pop()
    return tuple(found)


RECORD, CHAIN, LINEAGE, METRICS, REPORTS = "run.json", "chain.json", "lineage.json", "metrics.jsonl", "reports"
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
RUN_FILES = (RECORD, METRICS, "LICENSE", "NOTICE")
OF_STAGE = CALIBRATOR, PICTURE, THRESHOLD = "calibrator.json", "calibrator.svg", "threshold.json"
"""What `assay eval recalibrate` and `assay eval threshold` found out about a stage."""
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
)
OWN_TOKENIZER = "tokenizer"
"""Where `assay chain add` puts the tokenizer of a chain that is not asked with its base's; published, it lies at the top."""
OWN_DATA = re.compile(r"(kmp|pathways|hallmark|missions|refiner)-[a-z-]+(/[a-z]+)?|training/embedded/pairs")
"""Names of the data sets that this project makes, most of them from published figures."""
OWN_ROWS = {
    "c4dea639c891f4414d587d73abcf3feb707109630e44b9172767cae5947fed31": "assay data review --corpus a --context 8192 --out"
    " runs/review/corpus"
}
"""Rows of this project's invented papers, by the checksum in run.json, and the command that writes them."""
OWN_LICENCE = "apache-2.0"
REVIEW_RUN = {"prompt_version", "engine", "fingerprint"}
"""Fields by which the record of a run of reviews is known, which may lie among its reports."""
HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
Stored = TypeVar("Stored", RunRecord, ChainManifest)


@dataclass(frozen=True)
class BaseCopy:
    """A base model that lies on this machine, and what is known about where it comes from."""

    folder: Path
    origin: BaseOrigin
    licence_file: Path | None = None


@dataclass(frozen=True)
class Publication:
    """How a run is published with the chain below it: where to, on which base of the Hub, and who shall see it.

    `copy` is its base as it lies here, where the Hub does not hold it; `with_base` publishes that too, else it only
    tells which checksum a base on the Hub must have. `whole` are folders by stage with what else its repository holds:
    tokenizer, and the whole chain as one adapter or model, which then stands in the place of the stage's own.
    """

    repo: str
    tag: str = "v1.0"
    base: str | None = None
    base_revision: str | None = None
    licence: str | None = None
    is_public: bool = False
    is_pull_request: bool = False
    copy: BaseCopy | None = None
    with_base: bool = False
    whole: Mapping[str, Path] = field(default_factory=dict)
    replaces: bool = False
    resource_group: str | None = None
    gated: tuple[str, ...] = ()
    """Repositories that it stands on and that ask readers to request access."""

    def upload(self, kind: PublicationKind, parts: dict[str, Part], findings: Iterable[Diagnostic]) -> Upload:
        """Return files as they are uploaded to this repository."""
        seen = (self.tag, self.is_public, self.is_pull_request, self.replaces, self.resource_group)
        return Upload(kind, self.repo, parts, tuple(findings), *seen)


@dataclass(frozen=True)
class PinnedBase:
    """A base on the Hub; `weights_sha256` None: only the record vouches for it. A copy has an `original`.

    `parameters` is their number, None where neither the Hub nor a copy tells it.
    """

    name: str
    revision: str | None
    licence: str | None
    weights_sha256: str | None = None
    original: str | None = None
    parameters: int | None = None


@dataclass(frozen=True)
class Run:
    """A run folder. `reports` are those that measured this very adapter, by file name, and lie in `files`.

    An imported stage has no `record`.
    """

    folder: Path
    record: RunRecord | None
    manifest: ChainManifest
    reports: dict[str, Report[Any]]
    files: dict[str, Path]
    place: Path | None = None

    @property
    def stage(self) -> ChainStage:
        """The stage that this run trained."""
        return self.manifest.stages[-1]

    @property
    def earlier(self) -> tuple[ChainStage, ...]:
        """The stages that it stands on, in order."""
        return self.manifest.stages[:-1]

    @property
    def adapter(self) -> Path:
        """The folder of the adapter that was trained here."""
        return self.place or (self.folder / self.stage.path).resolve()

    def data(self) -> tuple[Source, ...]:
        """Return what it was trained on, with licences where they are known."""
        if self.record is None:
            return (Source("the data that it was trained on", None),)
        is_own = self.record.data.get("sha256") in OWN_ROWS
        return tuple(Source(name, OWN_LICENCE if is_own else data_licence(name)) for name in self.data_names)

    @property
    def data_names(self) -> tuple[str, ...]:
        """What it was trained on, as its configuration names it."""
        if self.record is None:
            return ()
        named = self.record.config.get("data") or ()
        return tuple(map(str, named if isinstance(named, list | tuple) else (named,)))

    @property
    def task(self) -> str:
        """The task of its reports, else the one that its stage and data are of; "other" where none is known."""
        kind = self.record.stage if self.record else ""
        reported = next((report.task for report in self.reports.values()), None)
        known = reported or WORDS["stages"].get(kind, {}).get("task")
        if known or any(name.startswith("refiner-") for name in self.data_names):
            return known or "refine"
        return "questions" if any(OWN_DATA.fullmatch(name.split("[")[0]) for name in self.data_names) else "other"


def read_run(folder: Path, more: Iterable[Path] = ()) -> Run:
    """Return the finished run in a folder, LabError for another; `more` are reports beside those in it."""
    manifest = _read(folder / CHAIN, ChainManifest) if (folder / CHAIN).is_file() else None
    is_imported = manifest is not None and (not manifest.stages or manifest.stages[-1].kind == IMPORTED)
    record = None if is_imported else _read(folder / RECORD, RunRecord)
    manifest = manifest or _read(folder / CHAIN, ChainManifest)
    if record and record.status != "finished":
        raise LabError(wording("run unfinished", folder=folder, status=record.status))
    if not manifest.stages and (merged := manifest.base.merged):
        names = ", ".join(each.name for each in merged.adapters)
        raise LabError(wording("only merged", folder=folder, names=names, base=folder / manifest.base.source))
    if not manifest.stages:
        raise LabError(wording("no stage", file=folder / CHAIN))
    stage = manifest.stages[-1]
    files, reports = dict[str, Path](), dict[str, Report[Any]]()
    for file in (*more, *sorted((folder / REPORTS).glob("*.json"))):
        seen = file.stat()
        if (report := _report_in(file, seen.st_mtime_ns, seen.st_size)) is None:
            continue
        name, files[file.name] = file.name, file
        made = [each.made_by for each in report.stages.values()] if isinstance(report, ReviewReport) else []
        is_of_stage = not made or any(each is None or each.stage == stage.name for each in made)
        if report.stage_checksums.get(stage.name) == stage.sha256 and is_of_stage:
            reports[name] = report
    return Run(folder, record, manifest, reports, files)


@lru_cache(maxsize=16)
def _report_in(file: Path, modified_ns: int, size: int) -> Report[Any] | None:
    """Return the report in a file, None for the record of a run of reviews; read once as long as it stays what it was."""
    with suppress(OSError, ValueError):
        known = json.loads(file.read_bytes())
        if isinstance(known, dict) and known.keys() >= REVIEW_RUN:
            return None
    return load_report(file, Report)


def _read(file: Path, kind: type[Stored]) -> Stored:
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LabError(wording("no run folder", folder=file.parent, name=file.name)) from None
    except (ValidationError, UnicodeDecodeError) as error:
        detail = " ".join((str(error).splitlines()[1:3]) or [str(error)])
        raise LabError(f"{file} cannot be read: {detail}") from None


def base_of(manifest: ChainManifest, name: str | None, revision: str | None) -> PinnedBase:
    """Return the base by its Hub id; `name` and `revision` go over what the chain says. LabError for a folder's path."""
    chosen = name or manifest.base.hub_id
    if chosen is None or not HUB_ID.fullmatch(chosen):
        raise LabError(wording("base nowhere", base=Path(chosen or manifest.base.source).name))
    known = manifest.base.revision if name in (None, manifest.base.hub_id) else None
    return PinnedBase(chosen, revision or known, manifest.base.licence)


def data_licence(name: str) -> str | None:
    """Return the licence of a training set: of this project's own, or the one that the card beside its rows states.

    >>> data_licence("missions-parted-train[direct:22]"), data_licence("training/embedded/pairs"), data_licence("v.jsonl")
    ('apache-2.0', 'apache-2.0', None)
    """
    if OWN_DATA.fullmatch(name.split("[")[0]):
        return OWN_LICENCE
    card = (Path(name) if Path(name).is_dir() else Path(name).parent) / "README.md"
    is_here = Path(name).exists() and card.is_file()
    stated = known_front_matter(card.read_text(encoding="utf-8", errors="replace")).get("license") if is_here else None
    return stated if stated in HUB_IDS else None


def pack_adapter(run: Run, base: PinnedBase, wanted: Publication, earlier: tuple[PublishedStage, ...]) -> Upload:
    """Return all that goes into the adapter's repository, each file read once; `earlier` stages lie where they say."""
    file = run.adapter / WEIGHTS
    if not file.is_file():
        pickle = " It holds a pickle (adapter_model.bin), which can run code and is not published."
        pickle *= any(file.parent.glob("adapter_model.bin"))
        raise LabError(wording("no adapter", folder=file.parent, name=file.name, pickle=pickle))
    if too_large := size_finding(WEIGHTS, file.stat().st_size):
        return wanted.upload("adapter", {}, [too_large])
    weights = part_of(file)
    shapes, wrong_weights = inspect(weights, WEIGHTS)
    findings = [*wrong_weights]
    config, settings = _config(run.adapter / CONFIG, base)
    findings += _identity(run, base, weights.sha256, settings)
    calibrator, wrong = read_own_record(run, CALIBRATOR, Calibrator)
    promised, other = read_own_record(run, THRESHOLD, StagePromise)
    findings += [*wrong, *other]
    confidence_files = [CALIBRATOR, PICTURE] * (calibrator is not None) + [THRESHOLD] * (promised is not None)
    if shapes:
        findings += fit_findings(WEIGHTS, shapes, settings)
    whole = (
        {each.relative_to(place).as_posix(): part_of(each) for each in sorted(place.rglob("*")) if each.is_file()}
        if (place := wanted.whole.get(run.stage.name))
        else {}
    )
    models = {name: part for name, part in whole.items() if name.endswith(".safetensors")}
    loaded = dict[str, tuple[int, ...]]()
    for name, part in models.items():
        found, wrong = inspect(part, name)
        loaded |= found
        findings += [*wrong, *filter(None, [size_finding(name, part.size)])]
        if CONFIG in whole:
            whole[CONFIG], joined = _config(Path(str(whole[CONFIG].content)), base)
            findings += fit_findings(name, found, joined)
    sums = {"sha256": weights.sha256, "config_sha256": config.sha256}
    place: Literal["", "stage"] = "stage" if models else ""
    here = PublishedStage(name=run.stage.name, repo=wanted.repo, revision=None, folder=place, **sums)
    lineage = Lineage(base=base.name, base_revision=base.revision, stages=(*earlier, here))
    records = {CHAIN: published_manifest(run.manifest, lineage, base), LINEAGE: lineage}
    tables = evaluation_tables(run.reports, run.stage.name)
    sources = (Source(base.name, base.licence), *run.data())
    own = read_own(run.folder)
    licence = wanted.licence or own.license or suggest_licence(sources[0], sources[1:])
    text = licence_text(licence)
    beside = [run.folder / name for name in (*RUN_FILES, *confidence_files)] + [
        run.adapter / name for name in TOKENIZER if not whole
    ]
    parts = {
        **{f"{place}/{name}".lstrip("/"): part for name, part in ((WEIGHTS, weights), (CONFIG, config))},
        **whole,
        **({"LICENSE": part_of(text.encode())} if text else {}),
        **{name: part_of((record.model_dump_json(indent=1) + "\n").encode()) for name, record in records.items()},
        **{file.name: part_of(file) for file in beside if file.is_file()},
        **{f"{REPORTS}/{name}": part_of(run.files[name]) for name in run.reports},
    }
    findings += [finding("licence conflict", "README.md", problem=each) for each in conflicts(licence, sources)]
    if names := unknown(sources):
        findings.append(finding("licence unknown", "README.md", names=", ".join(names), licence=licence))
    numbers = sum(prod(shape) for shape in (loaded or shapes).values())
    memory = 4 * numbers if "config.json" in whole else 4 * (numbers + base.parameters) if base.parameters else None
    lora = settings | {"size": weights.size, "memory": memory}
    card = add_own(adapter_card(run, base, lineage, wanted, licence, tables, parts, lora, own, calibrator), own)
    if line := foreign_line(run.folder / "README.md", card):
        findings.append(finding("own words", "README.md", line))
    parts["README.md"] = part_of(card.encode())
    return wanted.upload("adapter", parts, findings)


def read_own_record(run: Run, name: str, kind: type[OfStageT]) -> tuple[OfStageT | None, list[Diagnostic]]:
    """Return what a file of the run folder says of the stage, None without the file, and whether it is of another stage."""
    if not (run.folder / name).is_file():
        return None, []
    found = read_of_stage(run.folder / name, kind)
    wrong = [] if found.is_of(run.stage.name, run.stage.sha256) else [finding("other stage", name, stage=found.stage)]
    return found, wrong


def published_manifest(manifest: ChainManifest, lineage: Lineage, base: PinnedBase) -> ChainManifest:
    """Return chain.json as `assay chain add` puts it down: each stage in a folder of its own below."""
    paths = [*(f"stages/{stage.name}/adapter" for stage in manifest.stages[:-1]), "adapter"]
    stages = tuple(
        stage.model_copy(update={"path": path, "config_sha256": place.config_sha256})
        for stage, place, path in zip(manifest.stages, lineage.stages, paths, strict=True)
    )
    named: dict[str, object] = {}
    if manifest.base.hub_id is None or base.weights_sha256 is not None:
        named = {"source": base.name, "hub_id": base.name, "revision": base.revision}
        if base.weights_sha256 not in (None, manifest.base.weights_sha256):
            named |= {"weights_sha256": base.weights_sha256, "packed_sha256": manifest.base.weights_sha256}
    own = {"tokenizer": OWN_TOKENIZER} if manifest.tokenizer else {}
    return manifest.model_copy(update={"stages": stages, "base": manifest.base.model_copy(update=named), **own})


def _config(file: Path, base: PinnedBase) -> tuple[Part, dict[str, Any]]:
    """Return an adapter_config.json with the base's Hub id and revision in it, and what it says."""
    try:
        settings = read_adapter_config(file)
    except (OSError, ValueError) as error:
        raise LabError(f"{file} cannot be read ({error}); it belongs to the adapter. Save the adapter again.") from None
    named = {"base_model_name_or_path": base.name, "revision": base.revision}
    if settings | named == settings:
        return part_of(file), settings
    return part_of(json.dumps(settings | named, indent=2, sort_keys=True).encode()), settings


def _identity(run: Run, base: PinnedBase, sha256: str, settings: dict[str, Any]) -> Iterator[Diagnostic]:
    """Yield pickles beside the adapter, and where adapter, chain and base are not the ones that belong together."""
    for file in sorted(run.adapter.iterdir()):
        if file.suffix.lower() in PICKLES or file.name in STATE:
            yield finding("pickle beside", file.name)
    if sha256 != run.stage.sha256:
        yield finding("other adapter", WEIGHTS)
    named = str(settings.get("base_model_name_or_path") or "")
    is_path = named.startswith((".", "/", "~")) or "/" not in named
    known = {base.name, run.manifest.base.hub_id, run.manifest.base.source}
    merged = run.manifest.base.merged
    while merged:  # an adapter names what its base was merged from
        known |= {merged.base.hub_id, merged.base.source}
        merged = merged.base.merged
    if not is_path and named not in known:
        yield finding("base of config", CONFIG, named=named, base=base.name)
    if settings.get("peft_type") != "LORA":
        yield finding("no LoRA", CONFIG, kind=settings.get("peft_type"))
    if base.revision is None and not base.original:
        yield finding("base not pinned", "README.md", base=base.name)


WORDS = yaml.safe_load((TEMPLATES / "stages.yaml").read_text(encoding="utf-8"))
HUB_DATASET = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@[^:]+)?(?::\d+)?")
FILES = (".json", ".jsonl", ".parquet", ".csv")
WIDGET = 600
"""Characters of an example that the page of the model offers to try."""


def model_card(front: ModelCardData, template: str, /, **values: Any) -> str:
    """Return README.md: front matter in the order that people look for it, and a template filled in."""
    return f"---\n{front.to_yaml(original_order=WORDS['front_matter'])}\n---\n\n{render(template, **values)}"


def adapter_card(
    run: Run,
    base: PinnedBase,
    lineage: Lineage,
    wanted: Publication,
    licence: str,
    tables: Sequence[ReportTables],
    files: Mapping[str, Part],
    lora: Mapping[str, Any],
    own: OwnCard,
    calibrator: Calibrator | None = None,
) -> str:
    """Return README.md, made from the run's own records: front matter and body."""
    run = replace(run, reports={each.source: run.reports[each.source] for each in tables} | run.reports)
    record, name, data = run.record, lineage.stages[-1].repo.split("/")[-1], run.data()
    kind = record.stage if record else run.stage.kind
    known = WORDS["stages"].get(kind, {"method": kind})
    active: list[str] = []  # a stage that went on training the adapter before it replaces that one; others add up
    for stage in run.manifest.stages:
        active = [*(active[:-1] if stage.mode == "continue" else active), stage.name]
    is_own = any(OWN_DATA.fullmatch(each.split("[")[0]) for each in run.data_names)
    sample = example_of(run.task, run.stage.name, run.manifest.system_prompt, run.data_names, run.reports.values())
    settings = {
        key: value
        for key, value in (record.config if record else {}).items()
        if value not in (None, "", []) and value != WORDS["unset"].get(key) and key not in ("output", "chain")
    }
    if "vllm" not in settings:
        settings = {key: value for key, value in settings.items() if not key.startswith("vllm_")}
    papers = [
        WORDS["papers"][name] for name in (*known.get("papers", ()), "lora", *(("trl",) if record else ()), "peft")
    ]
    hidden = {"measured_by", "train_seconds", *known.get("hidden", ())}
    template = run.manifest.system_prompt
    return model_card(
        _front_matter(run, name, licence, base, sample, is_own=is_own, is_merged="config.json" in files),
        "adapter.md",
        form="model" if "config.json" in files else "joined" if lineage.stages[-1].folder else "adapter",
        run=run,
        record=record,
        base=base,
        lineage=lineage,
        tag=wanted.tag,
        gated=wanted.gated,
        calibrator=calibrator,
        picture=PICTURE if PICTURE in files else None,
        name=name,
        owner=wanted.repo.split("/")[0],
        lora=lora,
        authors=own.authors,
        has_own_words=bool(own.body),
        method=known.get("method"),
        rows=known.get("rows", "rows"),
        words=dict.fromkeys(("does", "whom", "not_for", "limits"), "")
        | WORDS["tasks"][run.task if record else "other"]
        | (WORDS["own_questions"] if is_own and run.task == "questions" else {})
        | ({"limits": DEMONSTRATION} if is_demonstration(run.stage.name, {run.stage.name: run.stage.sha256}) else {}),
        mode=WORDS["modes"][run.stage.mode] if record and run.earlier else None,
        asks="form" if ANSWER in template else "text" if template else "",
        forms={"open": OPEN, "choice": choices(("up", "down"))},
        sample=sample,
        active=active,
        licence=licence,
        duty=duty(base.licence),
        data={each.name.split("[")[0] if OWN_DATA.match(each.name) else each.name: each.licence for each in data},
        is_own=is_own,
        missing=[each for each in run.data_names if not OWN_DATA.match(each) and not hub_dataset(each)],
        made_by=OWN_ROWS.get(str(record.data.get("sha256"))) if record else None,
        figures=load_provenance() if is_own else {},
        settings=yaml.safe_dump(settings, default_flow_style=None, sort_keys=False, width=110, allow_unicode=True),
        used=[key for key in (record.result if record else {}) if key not in hidden],
        measured=tables,
        shown=[
            each for each in ("base", *(s.name for s in run.manifest.stages)) if any(each in t.brief for t in tables)
        ],
        revision=(record.code_revision or "" if record else "").removesuffix("+changes"),
        papers=papers,
    )


def _front_matter(
    run: Run, name: str, licence: str, base: PinnedBase, sample: SamplePrompt, *, is_own: bool, is_merged: bool
) -> ModelCardData:
    record, words = run.record, WORDS["tasks"][run.task]
    is_own_rows = record is not None and record.data.get("sha256") in OWN_ROWS
    config = record.config if record else {}
    results = eval_results(run.reports.values(), run.stage.name)
    more: dict[str, Any] = {}
    if language := config.get("language") or (["en"] if is_own or is_own_rows else None):
        more["language"] = language
    if licence == "other":
        more |= {
            "license_name": "see-base-model-and-training-data",
            "license_link": f"https://huggingface.co/{base.name}",
        }
    if results:
        more |= {"model_name": name, "eval_results": results}
    if sample.source and sum(len(each.content) for each in sample.messages) < WIDGET:
        turns = [each.model_dump(include={"role", "content"}) for each in sample.messages]
        more["widget"] = [{"messages": turns} | ({"output": {"text": sample.answer}} if sample.answer else {})]
    subject = ["biology"] if is_own or run.task == "review" else []
    calibrated = ["calibration"] if any(each.metric_type == "ece" for each in results) else []
    return ModelCardData(
        license=licence,
        base_model=base.name,
        base_model_relation="finetune" if is_merged else "adapter",
        library_name="transformers" if is_merged else "peft",
        pipeline_tag="text-generation",
        datasets=[found for each in run.data_names if (found := hub_dataset(each))] or None,
        tags=["lora", *(["trl", record.stage] if record else []), *words["tags"], *subject, *calibrated, "assay"],
        **more,
    )


def hub_dataset(name: str) -> str | None:
    """Return the Hub id of a training set that was named by one; None for our own and for files.

    >>> hub_dataset("org/pairs@main:500"), hub_dataset("kmp-train[abstain:16]"), hub_dataset("rows/votes.jsonl")
    ('org/pairs', None, None)
    """
    match = HUB_DATASET.fullmatch(name)
    return match["id"] if match and not match["id"].endswith(FILES) else None
