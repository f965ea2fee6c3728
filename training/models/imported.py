"""`assay chain import`: adapters and models that other tools wrote become a chain.

| what was named | becomes |
|---|---|
| plain LoRA, also with rank and alpha patterns, rsLoRA, transposed layers | a stage, stacked as it is |
| another adapter that PEFT can merge (DoRA, whole modules, embeddings, biases, experts, PiSSA …) | part of a base of the chain's own, merged by PEFT, with those before it |
| a full model | the chain's base |

A merged base is compared with the model that PEFT makes of base and adapter, unmerged, before anything is kept.
"""

import copy
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from jinja2 import TemplateError
from peft import PeftConfig, PeftModel
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.io import sha256_of, write_folder, write_whole
from evals.schema import MergedAdapter, MergedBase
from evals.schema.questions import Progress
from evals.schema.runs import IMPORTED, check_patterns, read_adapter_config
from training.data.tokens import INSTRUCTION, notes_of, with_template
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, Adapter, adapter_files, read_adapter, unstackable
from training.models.base import (
    EMBEDDED,
    MERGED_NAME,
    Base,
    config_of,
    drop_names,
    find_base,
    first_line,
    identity_of,
    load_model,
    load_tokenizer,
    no_progress,
    refuse_quantised,
    save_tokenizer,
    skeleton,
    stream_model,
    weights_sha256,
)
from training.models.check import TOLERANCE, ChainFinding, logprobs_along, probe_prompt
from training.models.manifest import BASE_STAGE, Chain, read_chain
from training.models.stack import merge_into, pairs_by_layer
from training.models.start import NewStage, append_stage, chain_without_stages
from training.run.checkpoints import checkpoints

HUB_PLACE = re.compile(r"[\w][\w.-]*/[\w][\w.-]*(/[\w./-]+)?")
TASKS = (None, "CAUSAL_LM", "FEATURE_EXTRACTION")
TOKENIZER_NAME = "tokenizer"
"""Folder of a chain's own tokenizer."""
VOCABULARY = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json")
"""Files of a tokenizer that hold its tokens."""
SETTINGS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates",
)
"""Those that change what a tokenizer does."""
NEW_TOKENS = 64
"""So many tokens whose embeddings were trained stand in what a merged base is compared on."""


@dataclass(frozen=True)
class NamedStage:
    """What was named for a stage, and where it lies; `why` an adapter cannot be stacked, empty where it can.

    `misfit` is told of one whose layers the base does not have by these names, unless PEFT knows them by others.
    """

    name: str
    folder: Path
    adapter: Adapter | None = None
    is_model: bool = False
    why: tuple[str, ...] = ()
    note: str = ""
    misfit: str = ""


def import_chain(
    source: str,
    adapters: Sequence[str],
    runs: Path,
    name: str | None = None,
    system_prompt: str = "",
    progress: Progress = no_progress,
    cache: Path | None = None,
) -> tuple[Chain, tuple[ChainFinding, ...]]:
    """Make a chain below `runs` of adapters, each NAME=FOLDER or FOLDER, in the order they were trained on `source`.

    A folder may hold an adapter, one in a subfolder, checkpoints of a trainer, or a full model. Returns the chain,
    named like its last stage unless told, and what could be checked (`is_ok`) and what not. Raises BadConfig if there
    is one of that name or two stages have one, MissingModel for what is not here, ChainMismatch for an adapter that
    can be neither stacked on the base nor merged into it; nothing is left behind then.
    """
    candidates = [_read_candidate(each) for each in adapters]
    folder = runs / (name or candidates[-1].name)
    if folder.exists():
        raise BadConfig(f"{folder} is there already; name another chain with --name, or move it away.")
    names = [BASE_STAGE, *(each.name for each in candidates)]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise BadConfig(f"the chain has a stage {twice!r} already; give each a name of its own, as NAME=FOLDER.")
    base = find_base(source, progress, cache)
    found = [ChainFinding(each.name, "folder", True, each.note) for each in candidates if each.note]
    if models := [number for number, each in enumerate(candidates) if each.is_model]:
        base, told = _take_as_base(candidates[models[-1]], base, [each.name for each in candidates[: models[-1]]])
        found.append(told)
        candidates = candidates[models[-1] + 1 :]
    candidates = [_fit_names(each, base) for each in candidates]
    roots = [base]  # an adapter that was trained on a merged model names what that was loaded from
    with write_folder(folder) as made:
        cut = max((number for number, each in enumerate(candidates, 1) if each.why), default=0)
        if cut:
            progress(0.1, f"merging {', '.join(each.name for each in candidates[:cut])}")
            base, findings = _write_merged_base(base, candidates[:cut], made / f"{folder.name}-base", system_prompt)
            found += findings
        stages, base, findings = _find_stages(base, candidates[cut:], roots)
        found += findings
        base, findings = _choose_tokenizer(base, stages, made / TOKENIZER_NAME)
        found += findings
        chain: Chain | None = None if stages else chain_without_stages(made, base, system_prompt)
        for number, each in enumerate(stages):
            progress(0.5 + number / len(stages) / 2, f"stacking {each.name}")
            is_last = number == len(stages) - 1
            target = made / "adapter" if is_last else made / "stages" / each.name / "adapter"
            target.mkdir(parents=True)
            for file in (WEIGHTS_NAME, CONFIG_NAME):
                shutil.copyfile(each.folder / file, target / file)
            new = NewStage(each.name, IMPORTED, target)
            chain = append_stage(made, new, base, chain, None if chain else system_prompt)
            found.append(ChainFinding(each.name, "adapter", True, _describe_layers(each)))
    told = "how it was trained, on what and in which order is not known: stages stand in the order that you gave"
    found.append(ChainFinding("chain", "provenance", False, told))
    told = "the one you gave; whether the adapters were trained with it is not known"
    found.append(ChainFinding("chain", "system prompt", False, told if system_prompt else "none: --system-prompt FILE"))
    return read_chain(folder), tuple(found)


def _describe_layers(candidate: NamedStage) -> str:
    pairs = candidate.adapter.pairs if candidate.adapter else {}
    ranks = ", ".join(map(str, sorted({pair.down.shape[0] for pair in pairs.values()})))
    kinds = ", ".join(sorted({layer.rpartition(".")[2] for layer in pairs}))
    return f"plain LoRA of rank {ranks} on {kinds}, {len(pairs)} layers that fit"


def _read_candidate(named: str) -> NamedStage:
    """Return what a stage's NAME=FOLDER names, after a look at it; MissingModel or ChainMismatch if it is of no use."""
    name, _, path = named.rpartition("=")
    folder = Path(path).expanduser().resolve()
    if not folder.is_dir():
        on_the_hub = HUB_PLACE.fullmatch(path)
        below = on_the_hub[1] if on_the_hub else None
        repo, part = (path.removesuffix(below), f' --include "{below[1:]}/*"') if below else (path, "")
        fetch = f"fetch one of the Hub with `hf download {repo}{part} --local-dir FOLDER` and name FOLDER{below or ''}"
        raise MissingModel(f"no adapter folder {path!r}; {fetch if on_the_hub else 'check its name and where it is'}.")
    name = name or (folder.parent if folder.name == "adapter" else folder).name
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_") or "adapter"
    place, note = _find_inside(folder)
    if not _is_adapter(place) and (place / "config.json").is_file():
        return NamedStage(name, place, is_model=True, note=note)
    weights, config = adapter_files(place)
    try:
        with safe_open(weights, "pt") as file:
            tensors = list(file.keys())
        why = tuple(unstackable(read_adapter_config(config), tensors))
    except (ValueError, SafetensorError):  # a damaged file, which the reader describes
        why = ()
    return NamedStage(name, place, None if why else read_adapter(place), why=why, note=note)


def _fit_names(candidate: NamedStage, base: Base) -> NamedStage:
    """Return an adapter as one to merge where its layers have other names in the base, as those of experts may."""
    if candidate.adapter is None:
        return candidate
    try:
        pairs_by_layer(skeleton(base.folder), {candidate.name: candidate.adapter})
    except ChainMismatch as error:
        why = ("layers that transformers has by other names today",)
        return replace(candidate, adapter=None, why=why, misfit=str(error))
    return candidate


def _is_adapter(folder: Path) -> bool:
    return (folder / CONFIG_NAME).is_file() or any(folder.glob("adapter_model.*"))


def _find_inside(folder: Path) -> tuple[Path, str]:
    """Return the folder of the adapter or model that a folder holds, and, where it lies below, which was taken."""
    if _is_adapter(folder) or (folder / "config.json").is_file():
        return folder, ""
    below = [each for each in sorted(folder.iterdir()) if each.is_dir()]
    below = [each for each in below if _is_adapter(each) or (each / "config.json").is_file()]
    saved = [each for each in checkpoints(folder) if each in below]
    others = [each for each in below if each not in saved]
    if len(others) > 1:
        raise BadConfig(
            f"{folder} holds {', '.join(each.name for each in others)}, each an adapter or a model; name one of them,"
            f" such as {folder / others[0].name}."
        )
    if others:
        return others[0], f"{others[0].name} of {folder.name} was taken"
    if saved:
        told = f"{saved[-1].name} was taken, the last of {len(saved)} in {folder.name}; name another by its own folder"
        return saved[-1], told
    return folder, ""


def _take_as_base(candidate: NamedStage, base: Base, earlier: Sequence[str]) -> tuple[Base, ChainFinding]:
    """Return a full model as the base of the chain; ChainMismatch if it is of another kind than the base named."""
    kinds = [config_of(each).model_type for each in (base.folder, candidate.folder)]
    if kinds[0] != kinds[1]:
        raise ChainMismatch(
            f"{candidate.folder} holds a full model of the type {kinds[1]!r}, and the base {base.public_name} is of the type"
            f" {kinds[0]!r}, so the one was not trained from the other; name {candidate.folder} itself as the base."
        )
    found = find_base(str(candidate.folder))
    load_tokenizer(found)
    told = f"a full model (weights {found.weights_sha256[:12]}…), the chain's base in place of {base.public_name}"
    told += f" and {', '.join(earlier)}" * bool(earlier) + "; that it was trained from there nobody can tell"
    return found, ChainFinding(candidate.name, "full model", False, told)


def _find_stages(
    base: Base, candidates: Sequence[NamedStage], roots: Sequence[Base]
) -> tuple[list[NamedStage], Base, list[ChainFinding]]:
    """Return the adapters that are stacked, the base that they stand on, and what is known of what they were made on.

    `roots` are what that base was made of.
    """
    stages, found = list[NamedStage](), list[ChainFinding]()
    for each in candidates:
        earlier = {stage.name: stage.adapter for stage in stages if stage.adapter}
        taken, told = _find_adapter_base(each, (base, *roots), earlier, partial(_merge_stages, base, earlier))
        if taken is not base:
            stages, base = [], taken
        found.append(told)
        stages.append(each)
    return stages, base, found


def _merge_stages(base: Base, adapters: Mapping[str, Adapter], held: torch.dtype) -> PreTrainedModel:
    """Return a base, held as that type, with adapters merged one after the other, each sum rounded to it."""
    model = cast(PreTrainedModel, load_model(base, "float32").to(held))
    for name, adapter in adapters.items():
        merge_into(model, {name: adapter})
    return model


def _find_adapter_base(
    candidate: NamedStage,
    bases: Sequence[Base],
    earlier: Mapping[str, Adapter | None],
    with_earlier: Callable[[torch.dtype], PreTrainedModel],
) -> tuple[Base, ChainFinding]:
    """Return the base that an adapter stands on, the first of `bases` or another, and what is known of it.

    `with_earlier` returns that first base, held as a type, with the `earlier` adapters merged: a folder that the adapter
    names may be the same sum. If not, that folder is the base, unless there are no earlier adapters: ChainMismatch.
    """
    base, settings = bases[0], read_adapter_config(candidate.folder / CONFIG_NAME)
    named, revision = str(settings.get("base_model_name_or_path") or ""), settings.get("revision")
    place = Path(os.path.expanduser(named))  # noqa: PTH111 (a stranger's text: pathlib raises where it is no path)
    if named and os.path.isfile(place / "config.json"):  # noqa: PTH113
        weights = weights_sha256(place)
        if any(each.has_weights(weights) for each in bases):
            told = f"the folder that its configuration names has weights {weights[:12]}…"
            return base, ChainFinding(candidate.name, "base", True, told)
        other = find_base(str(place.resolve()))
        gap = _distance_from_sum(other, earlier, with_earlier)
        sum_of = " + ".join([base.public_name, *earlier])
        if gap is not None:
            told = f"made on the folder {named}, which is {sum_of}: weights the same to {gap:.1e}, which is rounding"
            return base, ChainFinding(candidate.name, "base", True, told)
        if not earlier:
            raise ChainMismatch(
                f"the adapter {candidate.name!r} was trained on {named} (weights {weights[:12]}…), and the base"
                f" {base.public_name} has others ({base.weights_sha256[:12]}…); name {named} as the base."
            )
        told = f"made on the folder {named}, which is not {sum_of}: that folder is the base, without the stages before"
        return other, ChainFinding(candidate.name, "base", False, told)
    told = f"its configuration names {named or 'none'}{f' at {revision}' if revision else ''}"
    is_same = named == base.hub_id and base.source != EMBEDDED and revision and revision == base.revision
    if not is_same:
        told += (
            f"; the weights that it was trained on have no checksum there, and {base.public_name} was taken as you said"
        )
    return base, ChainFinding(candidate.name, "base", bool(is_same), told)


SHARE = 0.2
"""Of what an adapter adds to a layer; a folder that is further off may lack that adapter, or hold another one."""


def _distance_from_sum(
    other: Base, earlier: Mapping[str, Adapter | None], with_earlier: Callable[[torch.dtype], PreTrainedModel]
) -> float | None:
    """Return how far a folder's weights are from a sum (largest relative Frobenius norm); None if it is another sum.

    The sum may have been rounded to the folder's type at the end, or after each adapter as PEFT does. What is left is
    rounding of what was added, such as `safe_merge` does: less than half of a last place and than `SHARE` of each adapter.
    Weights that no adapter changes have to be the same. Of adapters that are None, which are no plain LoRA, a half of a
    last place is asked alone.
    """
    stored = _stored_dtype(other)
    most = 1e-5 if stored == torch.float32 else torch.finfo(stored).eps / 2
    theirs = load_model(other, "float32").state_dict()
    added: dict[str, float] = {}
    is_known = None not in earlier.values()
    for adapter in filter(None, earlier.values()):
        for layer, pair in adapter.pairs.items():
            size = SHARE * float((pair.up @ pair.down.float()).norm())
            added[f"{layer}.weight"] = min(size, added.get(f"{layer}.weight", size))
    for held in dict.fromkeys((torch.float32, stored)):
        mine = with_earlier(held).state_dict()
        if {name: each.shape for name, each in mine.items()} != {name: each.shape for name, each in theirs.items()}:
            return None
        gaps = list[float]()
        for name, each in mine.items():
            exact, found = each.float(), theirs[name].float()
            size = float(exact.norm()) or 1e-12
            gap = min(float((one - found).norm()) for one in (exact, exact.to(stored).float()))
            allowed = min(added.get(name, 1e-6 * size), most * size) if is_known else most * size
            gaps.append(gap / size if gap <= allowed else float("inf"))
        if max(gaps) <= most:
            return max(gaps)
    return None


@dataclass(frozen=True)
class _AdapterTokenizer:
    """The tokenizer that was saved with an adapter; without a chat template of its own it has the base's."""

    tokenizer: PreTrainedTokenizerBase
    has_template: bool

    def finding(self, name: str, ours: PreTrainedTokenizerBase, whose: str, taken: str) -> ChainFinding:
        """Return how it differs from `ours`, the tokenizer of `whose`, and what is asked with; `taken` ends the sentence."""
        is_known = self.has_template or ours.chat_template == INSTRUCTION  # else it is said of the base
        more = "" if is_known else f"; it came without a chat template, and that of {whose} is used"
        if changes := _compare_tokenizers(self.tokenizer, ours):
            told = f"the one saved with the adapter has {' and '.join(changes)}, where {whose} has others: {taken}"
        else:
            told = f"the one saved with the adapter, its chat template too, reads text as that of {whose} does"
        return ChainFinding(name, "tokenizer", is_known, told + more)


def _read_tokenizer(candidate: NamedStage, base: Base) -> _AdapterTokenizer | None:
    """Return the tokenizer beside an adapter or in the folder above, None if there is none.

    Where only a part was saved, such as a chat template, the rest is the base's. ChainMismatch if it cannot be read.
    """
    places = (candidate.folder, candidate.folder.parent)
    place = next((each for each in places if any((each / name).exists() for name in (*VOCABULARY, *SETTINGS))), None)
    if place is None:
        return None
    try:
        with tempfile.TemporaryDirectory() as temporary:
            whole = place
            if not any((place / name).is_file() for name in VOCABULARY):
                whole, rest = Path(temporary), load_tokenizer(base)
                rest.chat_template = None
                rest.save_pretrained(whole)
                for name in SETTINGS:
                    copy_of = shutil.copytree if (place / name).is_dir() else shutil.copyfile
                    if (place / name).exists():
                        copy_of(place / name, whole / name)
            tokenizer = AutoTokenizer.from_pretrained(
                whole, config=config_of(base.folder), local_files_only=True, trust_remote_code=False
            )
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ValueError("no tokenizer class fits it")
        if not tokenizer.chat_template and (file := place / "chat_template.json").is_file():  # a processor's
            tokenizer.chat_template = json.loads(file.read_text(encoding="utf-8"))["chat_template"]
        has_template = bool(tokenizer.chat_template)
        if not has_template:
            tokenizer.chat_template = load_tokenizer(base).chat_template
        return _AdapterTokenizer(with_template(tokenizer), has_template)
    except (OSError, ValueError, TypeError, KeyError, TemplateError, RecursionError) as error:
        raise ChainMismatch(
            f"the tokenizer saved with the adapter {candidate.name!r} in {place} cannot be used"
            f" ({first_line(error)}); put a whole one there, or move its files away to use that of the base."
        ) from error


def _compare_tokenizers(theirs: PreTrainedTokenizerBase, ours: PreTrainedTokenizerBase) -> list[str]:
    """Return how one tokenizer reads or ends conversations otherwise than another; pad tokens stand in none."""
    known, found = ours.get_vocab(), list[str]()
    pad = theirs.pad_token if theirs.pad_token not in known else None

    def rules(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        read = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {}
        added = [each for each in read.get("added_tokens", ()) if each["content"] != pad]
        return {**read, "added_tokens": added, "padding": None, "truncation": None}

    if theirs.chat_template != ours.chat_template:
        found.append("another chat template")
    tokens = sorted(theirs.get_vocab().items(), key=lambda each: each[1])
    if more := [token for token, _ in tokens if token not in known and token != pad]:
        listed = f"{', '.join(map(repr, more[:3]))}{', …' * (len(more) > 3)}"
        found.append(f"{len(more)} more token{'s' * (len(more) > 1)} ({listed})")
    special = theirs.special_tokens_map
    found += [
        f"{name} {special.get(name)!r}"
        for name in ("bos_token", "eos_token")
        if special.get(name) != ours.special_tokens_map.get(name)
    ]
    return found or ["other rules to divide text"] * (rules(theirs) != rules(ours))


def _choose_tokenizer(base: Base, candidates: Sequence[NamedStage], place: Path) -> tuple[Base, list[ChainFinding]]:
    """Return the base with the tokenizer that stacked adapters were saved with, written to `place` if it is another.

    ChainMismatch if they were saved with several, and for one that has no embeddings in the base.
    """
    ours, whose = load_tokenizer(base), base.public_name
    saved = {each.name: found for each in candidates if (found := _read_tokenizer(each, base))}
    last = next(reversed(saved), "")
    for name, each in saved.items():
        if changes := _compare_tokenizers(saved[last].tokenizer, each.tokenizer):
            raise ChainMismatch(
                f"the tokenizer saved with {last!r} has {' and '.join(changes)}, where that of {name!r} has others, and"
                " a chain is asked with one. If both were trained with one, put its files into both folders, or move"
                " the wrong ones away; if not, import them as two chains."
            )
    if last and _compare_tokenizers(saved[last].tokenizer, ours):
        _check_embeddings(last, saved[last].tokenizer, ours, base)
        save_tokenizer(saved[last].tokenizer, place)
        base = replace(base, tokenizer=place)
    taken = f"the chain is asked with it, and published with it ({place.name})"
    found = [
        saved[each.name].finding(each.name, ours, whose, taken)
        if each.name in saved
        else ChainFinding(
            each.name, "tokenizer", False, f"none saved with the adapter; that of {last or whose} is used"
        )
        for each in candidates
    ]
    notes = notes_of(load_tokenizer(base))
    return base, [*found, *(ChainFinding("chain", "chat template", False, each) for each in notes)]


def _check_embeddings(name: str, theirs: PreTrainedTokenizerBase, ours: PreTrainedTokenizerBase, base: Base) -> None:
    """Raise ChainMismatch for a tokenizer with tokens that the base has no embeddings for, or of another model."""
    way_on = "move the tokenizer's files away to ask with that of the base."
    vocabulary, rows = theirs.get_vocab(), _count_embeddings(skeleton(base.folder))
    if max(vocabulary.values()) >= rows:
        raise ChainMismatch(
            f"the tokenizer saved with the adapter {name!r} has {len(theirs):,} tokens, and {base.public_name} has"
            f" embeddings for {rows:,}: those of the new tokens were made at random before training and are not in the"
            f" adapter. Save it again with `save_pretrained(..., save_embedding_layers=True)`, or {way_on}"
        )
    known = ours.get_vocab()
    if sum(vocabulary.get(token) == number for token, number in known.items()) < len(known) / 2:
        raise ChainMismatch(
            f"the tokenizer saved with the adapter {name!r} is of another model than {base.public_name}: most tokens have"
            f" other numbers. Put the right one there, or {way_on}"
        )


def _write_merged_base(
    base: Base, candidates: Sequence[NamedStage], target: Path, system_prompt: str
) -> tuple[Base, list[ChainFinding]]:
    """Write base and adapters, merged in order, to the folder `target`, and return it as a base.

    Each adapter is loaded and merged by PEFT in float32. What is written is held as the base is where that moves no
    log-probability by more than `TOLERANCE`; else weights that this type cannot hold stay in float32. ChainMismatch
    for what cannot be merged, and where the written base is further than that from PEFT's unmerged model.
    """
    refuse_quantised(base.folder)
    found: list[ChainFinding] = []
    model, tokenizer, origin = load_model(base, "float32"), load_tokenizer(base), base
    merged: list[NamedStage] = []
    ids, reference = torch.empty(0, dtype=torch.long), torch.empty(0)
    for each in candidates:
        earlier = dict.fromkeys(earlier.name for earlier in merged)
        taken, told = _find_adapter_base(each, [origin], earlier, lambda _, model=model: model)
        found.append(told)
        if taken is not origin:
            refuse_quantised(taken.folder)
            model, tokenizer, origin, merged = load_model(taken, "float32"), load_tokenizer(taken), taken, []
        if theirs := _read_tokenizer(each, origin):
            found.append(theirs.finding(each.name, tokenizer, origin.public_name, f"it is that of {target.name}"))
            tokenizer = theirs.tokenizer
        else:
            told = f"none saved with the adapter; that of {origin.public_name} is used"
            found.append(ChainFinding(each.name, "tokenizer", False, told))
        before = _count_embeddings(model)
        trained = _fit_vocabulary(model, each, tokenizer)
        if each.adapter:
            found.append(ChainFinding(each.name, "adapter", True, f"{_describe_layers(each)}, merged"))
        prompt = tokenizer(probe_prompt(tokenizer, system_prompt), add_special_tokens=False)["input_ids"]
        new = [*trained, *range(before, _count_embeddings(model))][:NEW_TOKENS]
        if _count_embeddings(model) != before:
            sizes = f"{_count_embeddings(model):,} embeddings where {origin.public_name} has {before:,}"
            beside = "with the tokenizer beside it" if theirs else "and no tokenizer beside it, which names new tokens"
            found.append(ChainFinding(each.name, "vocabulary", theirs is not None, f"{sizes}, {beside}"))
        ids = torch.tensor([[*cast(list[int], prompt), *new]])
        model, reference = _merge_adapter(model, each, ids)
        merged.append(each)
    gap, held = _write_base(model, tokenizer, target, _stored_dtype(origin), ids, reference)
    if gap > TOLERANCE["float32"]:
        raise ChainMismatch(
            f"{', '.join(each.name for each in merged)} merged into {origin.public_name} gives log-probabilities"
            f" {gap:.3g} nats away from PEFT's own, unmerged model (allowed {TOLERANCE['float32']}), so the merged"
            " model is another one. Train the stage as plain LoRA, or name a model merged by its own tools as the base."
        )
    record = MergedBase(
        base=identity_of(origin, load_tokenizer(origin)),
        adapters=tuple(
            MergedAdapter(
                name=each.name,
                what=", ".join(each.why),
                sha256=sha256_of(each.folder / WEIGHTS_NAME),
                config_sha256=sha256_of(each.folder / CONFIG_NAME),
            )
            for each in merged
        ),
        dtype=held,
        gap=round(gap, 9),
    )
    write_whole(target / MERGED_NAME, record.model_dump_json(indent=1) + "\n")
    told = (
        f"{target.name} ({held}) is {' + '.join([origin.public_name, *(each.name for each in merged)])}: log-probabilities"
        f" within {gap:.1e} of PEFT's own, unmerged model (allowed {TOLERANCE['float32']})"
    )
    for each in merged:
        if each.why:
            words = f"{', '.join(each.why)}: cannot be stacked exactly, so it is merged into {target.name}"
            found.append(ChainFinding(each.name, "merged", True, words))
    found.append(ChainFinding("base", "merged", True, told))
    return replace(find_base(str(target)), source=target.name), found


def _fit_vocabulary(model: PreTrainedModel, candidate: NamedStage, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Give the model as many embeddings as an adapter was trained with; return the tokens that it trained.

    ChainMismatch for a tokenizer with more tokens than there are embeddings for.
    """
    layers = [each for each in (model.get_input_embeddings(), model.get_output_embeddings()) if each is not None]
    names = {name: each for name, each in model.named_modules() if any(each is layer for layer in layers)}
    sizes, whole = list[int](), list[nn.Module]()
    with safe_open(candidate.folder / WEIGHTS_NAME, "pt") as file:
        for key in file.keys():  # noqa: SIM118 (it is no dictionary)
            layer, _, last = key.removeprefix("base_model.model.").removesuffix(".base_layer.weight").rpartition(".")
            if key.endswith(".base_layer.weight"):
                layer, last = f"{layer}.{last}".lstrip("."), "weight"
            shape = file.get_slice(key).get_shape()
            if layer in names and last == "weight":
                sizes.append(shape[0])
                whole.append(names[layer])
            elif layer in names and last == "lora_embedding_A":
                sizes.append(shape[1])
    rows = max(sizes, default=_count_embeddings(model))
    is_held = any if _tied_output(model) is not None else all
    if max(rows, len(tokenizer)) > _count_embeddings(model) and not is_held(layer in whole for layer in layers):
        rows = _count_embeddings(model)
    if rows < len(tokenizer):
        raise ChainMismatch(
            f"the tokenizer beside the adapter {candidate.name!r} has {len(tokenizer):,} tokens, and there are embeddings for"
            f" {rows:,}: those of the new tokens were made at random before training and are not in {candidate.folder}."
            " Save the adapter again with `save_pretrained(..., save_embedding_layers=True)`."
        )
    if rows != _count_embeddings(model):
        model.resize_token_embeddings(rows, mean_resizing=False)
    named = read_adapter_config(candidate.folder / CONFIG_NAME).get("trainable_token_indices") or []
    lists = named.values() if isinstance(named, dict) else [named]
    return sorted({int(token) for tokens in lists for token in tokens})


def _count_embeddings(model: PreTrainedModel) -> int:
    return cast(torch.Tensor, model.get_input_embeddings().weight).shape[0]


def _merge_adapter(
    model: PreTrainedModel, candidate: NamedStage, ids: torch.Tensor
) -> tuple[PreTrainedModel, torch.Tensor]:
    """Merge one adapter into the model with PEFT; return it, and the log-probabilities of PEFT's unmerged model.

    ChainMismatch, with PEFT's reason, for what it cannot load or merge, or loads only in part.
    """
    what = f"the adapter {candidate.name!r} in {candidate.folder} ({', '.join(candidate.why) or 'plain LoRA'})"
    place, settings = str(candidate.folder), read_adapter_config(candidate.folder / CONFIG_NAME)
    if settings.get("megatron_config"):  # PEFT imports the module that it names
        raise ChainMismatch(f"{what} is for Megatron's own layers, which are not loaded here.")
    if settings.get("task_type") not in TASKS:
        raise ChainMismatch(f"{what} was trained for {settings['task_type']}, and chains answer in text (CAUSAL_LM).")
    tied = _tied_output(model)
    start = str(settings.get("init_lora_weights"))
    twin = copy.deepcopy(model) if start.startswith("pissa_niter") else None
    try:
        with warnings.catch_warnings(action="ignore"):  # what PEFT warns of is checked below
            if PeftConfig.from_pretrained(place).is_prompt_learning:
                raise NotImplementedError("it holds a prompt, not weights, so there is nothing to merge")
            check_patterns(settings, [name for name, _ in model.named_modules()])
            peft = PeftModel.from_pretrained(model, place)
            loaded = peft.load_adapter(place, "default")
            reference = logprobs_along(peft.eval(), ids)
            again = None if twin is None else logprobs_along(PeftModel.from_pretrained(twin, place).eval(), ids)
            if missing := [*loaded.missing_keys, *loaded.unexpected_keys]:
                raise ValueError(f"its weights and its configuration do not belong together ({missing[0]})")
            if not reference.isfinite().all():
                raise ValueError("it holds infinities or numbers that are none")
            if tied is not None:  # else what is added to one is added to both
                tied.weight = nn.Parameter(cast(torch.Tensor, tied.weight).detach().clone(), False)
            merged = cast(PreTrainedModel, cast(Any, peft).merge_and_unload(safe_merge=True))
    except Exception as error:  # whatever PEFT raises about files of others
        if candidate.misfit:
            raise ChainMismatch(candidate.misfit) from error
        reason = first_line(error)
        reason = f"{reason} is missing" if isinstance(error, KeyError) else reason
        raise ChainMismatch(f"{what} can be neither stacked exactly nor merged into a base: {reason}.") from error
    if again is not None and (gap := float((again - reference).abs().max())) > TOLERANCE["float32"]:
        raise ChainMismatch(
            f"{what} changes the base by a draw: loaded twice, its log-probabilities are {gap:.3g} nats apart. Save it"
            " again with `path_initial_model_for_weight_conversion`, which makes plain LoRA of it."
        )
    if tied is not None:
        _tie_again(merged)
    return merged.eval(), reference


def _tied_output(model: PreTrainedModel) -> nn.Module | None:
    """Return the output layer where it shares its weights with the embeddings."""
    output = model.get_output_embeddings()
    is_tied = output is not None and output.weight is model.get_input_embeddings().weight
    return output if is_tied else None


def _tie_again(model: PreTrainedModel) -> None:
    """Tie output and embeddings where they are still the same, else let the configuration say that they are not."""
    output, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    is_tied = torch.equal(cast(torch.Tensor, output.weight), cast(torch.Tensor, embeddings.weight))
    if is_tied:
        output.weight = embeddings.weight
    model.config.tie_word_embeddings = model.config.get_text_config().tie_word_embeddings = is_tied


def _write_base(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    stored: torch.dtype,
    ids: torch.Tensor,
    reference: torch.Tensor,
) -> tuple[float, str]:
    """Write a merged model as a base; return how far its log-probabilities are from the reference, and how it is held."""
    exact = {name: parameter.data for name, parameter in model.named_parameters()}
    gap, kept = float("inf"), str(stored).removeprefix("torch.")
    for held in (kept, f"{kept}, what it cannot hold in float32"):
        for name, parameter in model.named_parameters():
            rounded = exact[name].to(stored)
            is_rounded = held == kept or torch.equal(rounded.float(), exact[name])
            parameter.data = rounded if is_rounded else exact[name]
        model.save_pretrained(target)
        written = json.loads((target / "config.json").read_text(encoding="utf-8"))
        write_whole(target / "config.json", json.dumps(written | {"dtype": kept}, indent=2) + "\n")
        drop_names(target / "config.json", "_model_name_or_path")
        save_tokenizer(tokenizer, target)
        with stream_model(find_base(str(target))) as again:
            gap = float((logprobs_along(again, ids) - reference).abs().max())
        if gap <= TOLERANCE["float32"] or stored == torch.float32:
            return gap, held
        shutil.rmtree(target)
    return gap, held


def _stored_dtype(base: Base) -> torch.dtype:
    """Return the type that a base's weights are held in."""
    config = config_of(base.folder)
    found = config.dtype or config.get_text_config().dtype or torch.float32
    return found if isinstance(found, torch.dtype) else getattr(torch, str(found))
