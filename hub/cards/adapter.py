"""The card of a base that is published with a chain: what it is a copy of, and how it came about."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals.questions import system_prompt
from evals.schema import BaseIdentity, ChainStage
from evals.schema.publishing import BaseOrigin, Finding, Lineage
from hub.cards.dataset import filled_in
from hub.cards.figures import Measured, model_index
from hub.cards.licences import Source, conflicts, duty, suggested, unknown
from hub.plan import Part
from hub.runs import OWN_LICENCE, Base, Run, data_licence, figures_behind

PROJECT = """@software{assay,
  title = {Assay: train, question, judge and publish biology language models},
  author = {{The Assay authors}},
  license = {Apache-2.0}
}"""
LORA = """@article{hu2021lora,
  title = {LoRA: Low-Rank Adaptation of Large Language Models},
  author = {Hu, Edward J. and Shen, Yelong and Wallis, Phillip and Allen-Zhu, Zeyuan and Li, Yuanzhi
            and Wang, Shean and Wang, Lu and Chen, Weizhu},
  journal = {arXiv:2106.09685},
  year = {2021}
}"""
DPO = """@article{rafailov2023dpo,
  title = {Direct Preference Optimization: Your Language Model is Secretly a Reward Model},
  author = {Rafailov, Rafael and Sharma, Archit and Mitchell, Eric and Ermon, Stefano
            and Manning, Christopher D. and Finn, Chelsea},
  journal = {arXiv:2305.18290},
  year = {2023}
}"""
GRPO = """@article{shao2024deepseekmath,
  title = {DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models},
  author = {Shao, Zhihong and Wang, Peiyi and Zhu, Qihao and Xu, Runxin and Song, Junxiao and Bi, Xiao
            and Zhang, Haowei and Zhang, Mingchuan and Li, Y. K. and Wu, Y. and Guo, Daya},
  journal = {arXiv:2402.03300},
  year = {2024}
}"""
CITATIONS_METHODS = {"sft": (), "dpo": (DPO,), "grpo": (GRPO,), "review": (), "refiner": (GRPO,)}
"""Papers of a stage's own method."""


def citations(stage: str) -> str:
    """Return the BibTeX entries for an adapter of this kind of stage."""
    return "\n\n".join((PROJECT, LORA, *CITATIONS_METHODS.get(stage, ())))


QUESTION = "Which direction does glycolysis take in the thymus of mice in spaceflight?"


def loading_code(lineage: Lineage, stages: Sequence[ChainStage], tag: str, system: str) -> str:
    """Return Python that loads base and adapters, pinned, and asks one question.

    `system` is the chain's system prompt, filled in here with what may answer that question. A stage
    that went on training the adapter before it replaces that one; the others add up.
    """
    own = lineage.stages[-1]
    revision = f', revision="{lineage.base_revision}"' if lineage.base_revision else ""
    lines = [
        "import torch",
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f'base = "{lineage.base}"',
        f"tokenizer = AutoTokenizer.from_pretrained(base{revision})",
        f"model = AutoModelForCausalLM.from_pretrained(base{revision}, dtype=torch.float32)",
    ]
    active = _active(stages)
    for stage in (each for each in lineage.stages if each.name in active):
        pin = tag if stage is own else stage.revision
        place = f'"{stage.repo}", revision="{pin}", adapter_name="{stage.name}"'
        if stage.name == active[0]:
            lines.append(f"model = PeftModel.from_pretrained(model, {place})")
        else:
            lines.append(f"model.load_adapter({place})")
    names = ", ".join(f'"{name}"' for name in active)
    lines += [
        f"model.base_model.set_adapter([{names}], inference_mode=True)",
        "model.eval()",
        "",
        "messages = [",
        f'    {{"role": "system", "content": {system_prompt(system, QUESTION)!r}}},',
        f'    {{"role": "user", "content": "{QUESTION}"}},',
        "]",
        "inputs = tokenizer.apply_chat_template(",
        '    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True',
        ")",
        "with torch.inference_mode():",
        "    written = model.generate(**inputs, max_new_tokens=128, do_sample=False)",
        'print(tokenizer.decode(written[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))',
    ]
    return "\n".join(lines)


def _active(stages: Sequence[ChainStage]) -> list[str]:
    """Return the adapters at work in the last stage, in order."""
    active: list[str] = []
    for stage in stages:
        if stage.mode == "continue" and active:
            active.pop()
        active.append(stage.name)
    return active


ADAPTER_TEMPLATE = Path(__file__).parent / "templates" / "adapter.md"
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
                problem=f"nobody has recorded the licence of {', '.join(names)}; the card says license: {chosen}",
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
        ADAPTER_TEMPLATE,
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


BASE_TEMPLATE = Path(__file__).parent / "templates" / "base.md"


@dataclass(frozen=True)
class BaseCard:
    """What the card is made from: where it goes, where it comes from, its identity, what is uploaded."""

    repo: str
    tag: str
    origin: BaseOrigin
    identity: BaseIdentity
    files: Mapping[str, Part]


def base_card(card: BaseCard) -> str:
    """Return README.md: front matter and body."""
    body = filled_in(
        BASE_TEMPLATE,
        card=card,
        origin=card.origin,
        packed=card.origin.packed,
        name=card.repo.split("/")[-1],
        duty=duty(card.origin.licence),
        files=sorted((path, part.size, part.sha256) for path, part in card.files.items()),
    )
    return f"---\n{_front_matter(card)}---\n\n{body}"


def _front_matter(card: BaseCard) -> str:
    """Return the YAML between the dashes. To the Hub, one unpacked from a quantised model is quantised."""
    data: dict[str, Any] = {"license": card.origin.licence or "other"}
    if card.origin.licence is None:
        data["license_name"] = "not-recorded"
    data["language"] = ["en"]
    if card.origin.original is not None:
        data["base_model"] = card.origin.original
        if card.origin.packed:
            data["base_model_relation"] = "quantized"
    data |= {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["base-copy", "assay", *(["unpacked"] if card.origin.packed else [])],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
