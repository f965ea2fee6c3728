"""A finished run folder as it lies on disk, and as it is published: an allow-list of files and the card."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from huggingface_hub import ModelCardData
from pydantic import ValidationError

from evals.errors import LabError
from evals.facts import load_provenance
from evals.questions import system_prompt
from evals.report import load_report
from evals.schema import ChainManifest, ChainStage, EvalReport, RunRecord
from evals.schema.publishing import Finding, Lineage, PublishedStage
from hub.cards import TEMPLATES, render
from hub.cards.figures import Graded, Measured, eval_results, graded, is_graded, measured
from hub.cards.licences import Source, conflicts, duty, suggested, unknown
from hub.checks import PICKLES, STATE, Limits, Parcel, Part, fit_findings, inspect, part_of, size_finding

RECORD, CHAIN, LINEAGE, METRICS, REPORTS = "run.json", "chain.json", "lineage.json", "metrics.jsonl", "reports"
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
BESIDE = (RECORD, METRICS, "LICENSE", "NOTICE")
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
)
OWN_QUESTIONS = re.compile(r"(kmp|pathways|hallmark|refiner)-[a-z-]+(/[a-z]+)?")
"""Names of the data sets that this project makes from published figures."""
OWN_LICENCE = "apache-2.0"
HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
Stored = TypeVar("Stored", RunRecord, ChainManifest)


@dataclass(frozen=True)
class Wishes:
    """What the person publishing chose: repository, tag, base by its Hub id, licence, limits."""

    repo: str
    tag: str = "v1.0"
    base: str | None = None
    base_revision: str | None = None
    licence: str | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Base:
    """The model that a chain stands on, by its name on the Hub.

    `weights_sha256` is over the safetensors there, None where only the training record vouches for them;
    `original` is the model that a published copy was made from.
    """

    name: str
    revision: str | None
    licence: str | None
    weights_sha256: str | None = None
    original: str | None = None


@dataclass(frozen=True)
class Run:
    """A run folder. `reports` and `graded` are what measured this very adapter, the first by file name."""

    folder: Path
    record: RunRecord
    manifest: ChainManifest
    reports: dict[str, EvalReport]
    graded: tuple[Graded, ...] = ()

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
        return (self.folder / self.stage.path).resolve()

    def data(self) -> tuple[Source, ...]:
        """Return what it was trained on, with licences where they are known."""
        named = self.record.config.get("data") or ()
        names = named if isinstance(named, list | tuple) else (named,)
        return tuple(Source(str(name), data_licence(str(name))) for name in names)


def read_run(folder: Path, more: Iterable[Path] = ()) -> Run:
    """Return the run in a folder; `more` are files of reports beside those in the folder.

    LabError for a folder that is no finished run of an adapter.
    """
    record = _read(folder / RECORD, RunRecord)
    manifest = _read(folder / CHAIN, ChainManifest)
    if record.status != "finished":
        raise LabError(
            f"the run in {folder} is {record.status}, and only a finished run is published; let it end"
            " (the same command goes on with it), or publish another."
        )
    if not manifest.stages:
        raise LabError(f"{folder / CHAIN} names no stage, so there is no adapter to publish.")
    stage = manifest.stages[-1]
    files = {file.name: file for file in (*more, *sorted((folder / REPORTS).glob("*.json")))}
    others = [file for file in files.values() if is_graded(file)]
    reports = {name: load_report(file) for name, file in files.items() if file not in others}
    mine = {name: each for name, each in reports.items() if each.stage_checksums.get(stage.name) == stage.sha256}
    return Run(folder, record, manifest, mine, graded(others, stage.name, stage.sha256))


def _read(file: Path, kind: type[Stored]) -> Stored:
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LabError(
            f"{file.parent} is no run folder: it holds no {file.name}. Name a folder that `assay train`"
            " wrote, such as runs/grpo."
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        detail = " ".join((str(error).splitlines()[1:3]) or [str(error)])
        raise LabError(f"{file} cannot be read: {detail}") from None


def base_of(manifest: ChainManifest, name: str | None, revision: str | None) -> Base:
    """Return the base by its Hub id; `name` and `revision` go over what the chain says.

    LabError if neither gives a Hub id: the path of a folder leads nowhere for anybody else.
    """
    chosen = name or manifest.base.hub_id
    if chosen is None or not HUB_ID.fullmatch(chosen):
        raise LabError(
            f"the chain stands on {Path(chosen or manifest.base.source).name!r}, which is no model on the"
            " Hub; nobody else could load the adapter. Name the base's Hub id with --base ORG/NAME, or"
            " publish the base too with --with-base."
        )
    known = manifest.base.revision if name in (None, manifest.base.hub_id) else None
    return Base(chosen, revision or known, manifest.base.licence)


def data_licence(name: str) -> str | None:
    """Return the licence of a training set: known for this project's own questions only.

    >>> data_licence("kmp-train[abstain:16]"), data_licence("pathways-train/liver"), data_licence("votes.jsonl")
    ('apache-2.0', 'apache-2.0', None)
    """
    return OWN_LICENCE if OWN_QUESTIONS.fullmatch(name.split("[")[0]) else None


def pack_adapter(run: Run, base: Base, wishes: Wishes, earlier: tuple[PublishedStage, ...]) -> Parcel:
    """Return everything that goes into the adapter's repository, each file read once.

    `earlier` says where the stages before it lie. What is wrong is among the parcel's findings.
    """
    file = run.adapter / WEIGHTS
    if not file.is_file():
        pickle = ""
        if any(file.parent.glob("adapter_model.bin")):
            pickle = " It holds a pickle (adapter_model.bin), which can run code and is not published."
        raise LabError(
            f"{file.parent} holds no {file.name}, so there is no adapter to publish.{pickle} Save it with"
            " save_pretrained, which writes safetensors."
        )
    if too_large := size_finding(WEIGHTS, file.stat().st_size, wishes.limits):
        return Parcel("adapter", wishes.repo, {}, (too_large,))
    weights = inspect(file, WEIGHTS)
    config, settings = _config(run, base)
    findings = [*weights.findings, *_foreign(run), *_identity(run, base, weights.part.sha256, settings)]
    if weights.shapes:
        findings += fit_findings(WEIGHTS, weights.shapes, settings)
    own = PublishedStage(
        name=run.stage.name, repo=wishes.repo, revision=None, sha256=weights.part.sha256, config_sha256=config.sha256
    )
    lineage = Lineage(base=base.name, base_revision=base.revision, stages=(*earlier, own))
    records = {CHAIN: published_manifest(run.manifest, lineage, base), LINEAGE: lineage}
    tables, figures = measured(run.reports, run.stage.name)
    parts = {
        WEIGHTS: weights.part,
        CONFIG: config,
        **{name: part_of((record.model_dump_json(indent=1) + "\n").encode()) for name, record in records.items()},
        **_beside(run),
        **{name: part_of(image) for name, image in figures.items()},
    }
    tables += [each.table for each in run.graded]
    sources = (Source(base.name, base.licence), *run.data())
    licence = wishes.licence or suggested(sources[0], sources[1:])
    findings += _licence_findings(licence, sources)
    parts["README.md"] = part_of(adapter_card(run, base, lineage, wishes.tag, licence, tables, parts).encode())
    return Parcel("adapter", wishes.repo, parts, tuple(findings))


def _licence_findings(licence: str, sources: tuple[Source, ...]) -> Iterator[Finding]:
    """Yield where the licence promises more than base and data allow, and what nobody has recorded."""
    remedy = "choose a licence that all of them allow, with --license"
    for problem in conflicts(licence, sources):
        yield Finding(check="licence", path="README.md", problem=problem, remedy=remedy)
    if names := unknown(sources):
        yield Finding(
            check="licence",
            path="README.md",
            problem=f"nobody has recorded the licence of {', '.join(names)}; the card says license: {licence}",
            remedy="find it out before you publish, and name the adapter's with --license",
            is_error=False,
        )


def published_manifest(manifest: ChainManifest, lineage: Lineage, base: Base) -> ChainManifest:
    """Return chain.json as `assay chain add` puts it down: each stage in a folder of its own below."""
    paths = [*(f"stages/{stage.name}/adapter" for stage in manifest.stages[:-1]), "adapter"]
    stages = tuple(
        stage.model_copy(update={"path": path, "config_sha256": place.config_sha256})
        for stage, place, path in zip(manifest.stages, lineage.stages, paths, strict=True)
    )
    changes: dict[str, object] = {"stages": stages}
    recorded = manifest.base.weights_sha256
    if manifest.base.hub_id is None or base.weights_sha256 is not None:
        named = {"source": base.name, "hub_id": base.name, "revision": base.revision}
        if base.weights_sha256 not in (None, recorded):
            named |= {"weights_sha256": base.weights_sha256, "packed_sha256": recorded}
        changes["base"] = manifest.base.model_copy(update=named)
    return manifest.model_copy(update=changes)


def _config(run: Run, base: Base) -> tuple[Part, dict[str, Any]]:
    """Return adapter_config.json with the base's Hub id and revision in it, and what it says."""
    file = run.adapter / CONFIG
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise LabError(f"{file} cannot be read; it belongs to the adapter. Save the adapter again.") from None
    named = {"base_model_name_or_path": base.name, "revision": base.revision}
    if settings | named == settings:
        return part_of(file), settings
    return part_of(json.dumps(settings | named, indent=2, sort_keys=True).encode()), settings


def _identity(run: Run, base: Base, sha256: str, settings: dict[str, Any]) -> Iterator[Finding]:
    """Yield where adapter, chain and base are not the ones that belong together."""
    if sha256 != run.stage.sha256:
        yield Finding(
            check="chain",
            path=WEIGHTS,
            problem="is not the adapter that chain.json describes (another checksum)",
            remedy="put the right adapter back, or train the stage again",
        )
    named = str(settings.get("base_model_name_or_path") or "")
    known = (base.name, run.manifest.base.hub_id, run.manifest.base.source)
    is_path = named.startswith((".", "/", "~")) or "/" not in named
    if named and not is_path and named not in known:
        yield Finding(
            check="base",
            path=CONFIG,
            problem=f"says that the adapter was trained on {named}, but the chain stands on {base.name}",
            remedy="publish adapter and chain of one run; --base names the base they were trained on",
        )
    if settings.get("peft_type") != "LORA":
        yield Finding(
            check="weights",
            path=CONFIG,
            problem=f"is an adapter of type {settings.get('peft_type')!r}; only LoRA is published",
            remedy="train the stage with LoRA",
        )
    if base.revision is None:
        yield Finding(
            check="base",
            path="README.md",
            problem=f"the training record does not tell which revision of {base.name} was used, so the"
            " card cannot pin it",
            remedy="name it with --base-revision, if you know it",
            is_error=False,
        )


def _foreign(run: Run) -> Iterator[Finding]:
    """Yield pickles and training state in the adapter's folder: it is not what a run leaves there."""
    for file in sorted(run.adapter.iterdir()):
        if file.suffix.lower() in PICKLES or file.name in STATE:
            yield Finding(
                check="weights",
                path=file.name,
                problem="lies beside the adapter and can run code when it is loaded",
                remedy="remove it: save_pretrained writes all that is needed as safetensors",
            )


def _beside(run: Run) -> dict[str, Part]:
    """Return the other files on the allow-list that are there."""
    found = [run.folder / name for name in BESIDE] + [run.adapter / name for name in TOKENIZER]
    parts = {file.name: part_of(file) for file in found if file.is_file()}
    for name, report in run.reports.items():
        file = run.folder / REPORTS / name
        content = file if file.is_file() else (report.model_dump_json(indent=1) + "\n").encode()
        parts[f"{REPORTS}/{name}"] = part_of(content)
    return parts | {f"{REPORTS}/{each.file.name}": part_of(each.file) for each in run.graded}


def stage_wishes(wishes: Wishes, name: str) -> Wishes:
    """Return the wishes for an earlier stage of the same chain: a repository beside, of its name."""
    return replace(wishes, repo=f"{wishes.repo}-{name}")


WORDS = yaml.safe_load((TEMPLATES / "stages.yaml").read_text(encoding="utf-8"))
QUESTION = "Which direction does glycolysis take in the thymus of mice in spaceflight?"
HUB_DATASET = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@[^:]+)?(?::\d+)?")
FILES = (".json", ".jsonl", ".parquet", ".csv")
FRONT_MATTER = [
    *("license", "license_name", "language", "base_model", "base_model_relation", "library_name", "pipeline_tag"),
    *("datasets", "tags"),
]
NOT_SETTINGS = ("output", "base", "chain", "data")
"""Keys of the configuration that the card tells elsewhere, by name rather than by folder."""


def adapter_card(
    run: Run,
    base: Base,
    lineage: Lineage,
    tag: str,
    licence: str,
    tables: Sequence[Measured],
    files: Mapping[str, Part],
) -> str:
    """Return README.md, made from the run's own records: front matter and body."""
    record, name = run.record, lineage.stages[-1].repo.split("/")[-1]
    known = WORDS["stages"].get(record.stage, {"method": record.stage})
    prompt = run.manifest.system_prompt
    active: list[str] = []  # a stage that went on training the adapter before it replaces that one; others add up
    for stage in run.manifest.stages:
        active = [*(active[:-1] if stage.mode == "continue" else active), stage.name]
    own = f"{OWN_LICENCE} (questions of the Assay project, made from the figures below)"
    data = [(source.name, own if source.licence else "not recorded") for source in run.data()]
    body = render(
        "adapter.md",
        run=run,
        record=record,
        base=base,
        lineage=lineage,
        tag=tag,
        name=name,
        method=known["method"],
        mode=WORDS["modes"][run.stage.mode],
        told=system_prompt(prompt, ""),
        asked=system_prompt(prompt, QUESTION),
        question=QUESTION,
        active=active,
        licence=licence,
        duties=[words for words in (duty(base.licence),) if words],
        data=data,
        figures=[(file, each.source, each.licence) for file, each in load_provenance().items()]
        if any(source.licence for source in run.data())
        else [],
        counts=[
            (key, f"`{value}`" if "sha256" in key or key.startswith("stage ") else value)
            for key, value in record.data.items()
        ],
        settings=[
            (key, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value)
            for key, value in record.config.items()
            if key not in NOT_SETTINGS and value is not None
        ],
        result=[(WORDS["used"].get(key, key), value) for key, value in record.result.items()],
        hours=_hours(record),
        measured=tables,
        files=sorted((path, part.size, part.sha256) for path, part in files.items()),
        citations="\n".join(WORDS["papers"][paper] for paper in ("assay", "lora", *known.get("papers", ()))).rstrip(),
    )
    return f"---\n{_front_matter(run, base, name, licence)}---\n\n{body}"


def _front_matter(run: Run, base: Base, name: str, licence: str) -> str:
    record, results = run.record, eval_results(run.reports.values(), run.stage.name)
    more: dict[str, Any] = {"language": record.config.get("language") or ["en"]}
    if licence == "other":
        more["license_name"] = "see-base-model-and-training-data"
    if (emissions := record.result.get("co2_g")) is not None:
        grams = record.result.get("co2_grams_per_kwh")
        source = f", at {grams} g of CO2 per kWh" if grams is not None else ""
        more["co2_eq_emissions"] = {
            "emissions": emissions,
            "source": f"energy as the machine's counters measured it{source}",
            "training_type": "fine-tuning",
        }
    if results:
        more |= {"model_name": name, "eval_results": results}
    data = ModelCardData(
        license=licence,
        base_model=base.name,
        base_model_relation="adapter",
        library_name="peft",
        pipeline_tag="text-generation",
        datasets=[found for source in run.data() if (found := hub_dataset(source.name))] or None,
        tags=["lora", "trl", record.stage, "biology", "calibration", "assay"],
        **more,
    )
    return f"{data.to_yaml(original_order=FRONT_MATTER)}\n"


def hub_dataset(name: str) -> str | None:
    """Return the Hub id of a training set that was named by one; None for our own and for files.

    >>> hub_dataset("org/pairs@main:500"), hub_dataset("kmp-train[abstain:16]"), hub_dataset("rows/votes.jsonl")
    ('org/pairs', None, None)
    """
    match = HUB_DATASET.fullmatch(name)
    return match["id"] if match and not match["id"].endswith(FILES) else None


def _hours(record: RunRecord) -> str | None:
    if record.ended_at is None:
        return None
    seconds = (record.ended_at - record.started_at).total_seconds()
    return f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"
