"""The card of an adapter in its chain: every word from run.json, chain.json and reports."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals.questions import system_prompt
from evals.schema.publishing import Finding, Lineage
from hub.cards import filled_in
from hub.citations import citations
from hub.licences import Source, conflicts, duty, suggested, unknown
from hub.loading import loading_code
from hub.measured import Measured, model_index
from hub.parcel import Part
from hub.runs import OWN_LICENCE, Base, Run, data_licence, figures_behind

TEMPLATE = Path(__file__).parent / "templates" / "adapter.md"
METHODS = {
    "sft": "supervised fine-tuning (SFT)",
    "dpo": "direct preference optimisation (DPO)",
    "grpo": "group relative policy optimisation (GRPO)",
    "review": "supervised fine-tuning on peer reviews (SFT)",
    "refiner": "group relative policy optimisation on judged answers with citations (GRPO)",
}
MODES = {
    "stack": "a new adapter on top of all earlier ones, which stay active",
    "continue": "the adapter of the stage before it, trained further; it takes that one's place",
    "merge_then_new": "a new adapter, trained while the earlier ones were part of the weights",
}
HUB_DATASET = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@[^:]+)?(?::\d+)?")
FILES = (".json", ".jsonl", ".parquet", ".csv")
NOT_SETTINGS = ("output", "base", "chain", "data")
"""Keys of the configuration that the card tells elsewhere, by name rather than by folder."""

USED = {
    "train_seconds": "time in training, seconds",
    "energy_kwh": "energy, kWh",
    "measured_by": "energy measured",
    "co2_g": "CO2, g",
    "co2_grams_per_kwh": "CO2 of the grid, g per kWh",
    "cost": "cost, hours times the price of one",
}
"""What a run used, in words; the rest of its result keeps the names of run.json."""


@dataclass(frozen=True)
class AdapterCard:
    """What a card is made from: the run, where everything lies, what was measured, what is uploaded."""

    run: Run
    base: Base
    lineage: Lineage
    tag: str
    measured: tuple[Measured, ...]
    files: Mapping[str, Part]
    licence: str | None = None


def licence_of(card: AdapterCard) -> str:
    """Return the licence: the one that was chosen, or what base and data allow."""
    base = Source(card.base.name, card.base.licence)
    return card.licence or suggested(base, card.run.data())


def licence_findings(card: AdapterCard) -> list[Finding]:
    """Return where the licence promises more than base and data allow, and what nobody has recorded."""
    sources = (Source(card.base.name, card.base.licence), *card.run.data())
    chosen = licence_of(card)
    found = [
        Finding(
            check="licence",
            path="README.md",
            problem=problem,
            remedy="choose a licence that all of them allow, with --license",
        )
        for problem in conflicts(chosen, sources)
    ]
    names = unknown(sources)
    if names:
        found.append(
            Finding(
                check="licence",
                path="README.md",
                problem=f"nobody has recorded the licence of {', '.join(names)}; the card says"
                f" license: {chosen}",
                remedy="find it out before you publish, and name the adapter's with --license",
                is_error=False,
            )
        )
    return found


def adapter_card(card: AdapterCard) -> str:
    """Return README.md: front matter and body."""
    return f"---\n{front_matter(card)}---\n\n{_body(card)}"


def front_matter(card: AdapterCard) -> str:
    """Return the YAML between the dashes."""
    run, licence = card.run, licence_of(card)
    own = card.lineage.stages[-1]
    published = [name for source in run.data() if (name := hub_dataset(source.name))]
    data: dict[str, Any] = {"license": licence}
    if licence == "other":
        data["license_name"] = "see-base-model-and-training-data"
    data |= {
        "language": ["en"],
        "base_model": card.base.name,
        "base_model_relation": "adapter",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        **({"datasets": published} if published else {}),
        "tags": ["lora", "trl", run.record.stage, "biology", "calibration", "assay"],
    }
    if run.record.config.get("language"):
        data["language"] = run.record.config["language"]
    emissions = run.record.result.get("co2_g")
    if emissions is not None:
        grams = run.record.result.get("co2_grams_per_kwh")
        source = f", at {grams} g of CO2 per kWh" if grams is not None else ""
        data["co2_eq_emissions"] = {
            "emissions": emissions,
            "source": f"energy as the machine's counters measured it{source}",
            "training_type": "fine-tuning",
        }
    index = model_index(own.repo.split("/")[-1], run.reports.values(), run.stage.name)
    if index:
        data["model-index"] = index
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def hub_dataset(name: str) -> str | None:
    """Return the Hub id of a training set that was named by one; None for our own and for files.

    >>> hub_dataset("org/pairs@main:500"), hub_dataset("kmp-train[abstain:16]"), hub_dataset("rows/votes.jsonl")
    ('org/pairs', None, None)
    """
    match = HUB_DATASET.fullmatch(name)
    return match["id"] if match and not match["id"].endswith(FILES) else None


def _body(card: AdapterCard) -> str:
    run = card.run
    names = [source.name for source in run.data()]
    stage = card.lineage.stages[-1]
    return filled_in(
        TEMPLATE,
        card=card,
        run=run,
        record=run.record,
        name=stage.repo.split("/")[-1],
        method=METHODS[run.record.stage],
        mode=MODES[run.stage.mode],
        told=system_prompt(run.manifest.system_prompt, ""),
        lineage=_drawn(card),
        code=loading_code(card.lineage, run.manifest.stages, card.tag, run.manifest.system_prompt),
        licence=licence_of(card),
        duties=[words for words in (duty(card.base.licence),) if words],
        data=[(source.name, _licence_words(source.name)) for source in run.data()],
        figures=list(figures_behind(names)),
        counts=_counts(run),
        settings=[
            (key, _shown(value))
            for key, value in run.record.config.items()
            if key not in NOT_SETTINGS and value is not None
        ],
        result=[(USED.get(key, key), value) for key, value in run.record.result.items()],
        hours=_hours(run),
        measured=card.measured,
        files=sorted((path, part.size, part.sha256) for path, part in card.files.items()),
        citations=citations(run.record.stage),
    )


def _drawn(card: AdapterCard) -> str:
    """Return the chain as a tree of text."""
    revision = f" @ {card.lineage.base_revision}" if card.lineage.base_revision else ""
    copy = f" (copy of {card.base.original})" if card.base.original else ""
    lines = [f"base  {card.base.name}{revision}{copy}"]
    stages = zip(card.lineage.stages, card.run.manifest.stages, strict=True)
    for depth, (place, stage) in enumerate(stages):
        pin = f" @ {place.revision}" if place.revision else f" @ {card.tag} (this adapter)"
        how = "" if stage.mode == "stack" else f", {stage.mode}"
        lines.append(f"{'   ' * depth}└─ {stage.name}  {place.repo}{pin} ({stage.kind}{how})")
    return "\n".join(lines)


def _counts(run: Run) -> list[tuple[str, str]]:
    """Return what run.json says about the data: numbers of rows, checksums."""
    return [
        (key, f"`{value}`" if "sha256" in key or key.startswith("stage ") else str(value))
        for key, value in run.record.data.items()
    ]


def _licence_words(name: str) -> str:
    if data_licence(name):
        return f"{OWN_LICENCE} (questions of the Assay project, made from the figures below)"
    return "not recorded"


def _hours(run: Run) -> str | None:
    if run.record.ended_at is None:
        return None
    seconds = (run.record.ended_at - run.record.started_at).total_seconds()
    return f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
