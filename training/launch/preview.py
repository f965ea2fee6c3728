"""A plan looked at closely: rows as tokens with what is learned of them, lengths, layers, and what is left out.

Nothing is fetched and no weights are read: the tokenizer and the configuration are used if they are on this machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from transformers.utils import cached_file

from evals.errors import LabError
from training.data.tokens import fitting, length_of, notes_of, sequences_of
from training.launch.plan import Plan
from training.models.base import (
    EMBEDDED,
    EMBEDDED_HUB_ID,
    FOLDER_NAME,
    HUB_ID,
    Base,
    check_end_token,
    default_cache,
    load_tokenizer,
    skeleton,
    weights_files,
)
from training.models.manifest import last_adapters
from training.models.targets import Targets
from training.models.trial import check_base, kernel_notes

SHOWN = 2


@dataclass(frozen=True)
class TokenRow:
    """One sequence of a row: the tokens as text, and which of them are learned."""

    name: str
    column: str
    tokens: tuple[str, ...]
    learned: tuple[bool, ...]

    def with_marks(self) -> str:
        """Return the tokens with ⟦ and ⟧ around those that are learned."""
        spans = groupby(zip(self.tokens, self.learned, strict=True), key=lambda each: each[1])
        texts = [(is_learned, "│".join(text for text, _ in group)) for is_learned, group in spans]
        return "".join(f"⟦{text}⟧" if is_learned else text for is_learned, text in texts)


@dataclass(frozen=True)
class Preview:
    """What a run would read. `kept` rows of `rows`; `lengths` in tokens: shortest, median, longest."""

    rows: int
    kept: int
    left_out: Mapping[str, int]
    lengths: tuple[int, int, int] | None
    examples: tuple[TokenRow, ...]
    problems: tuple[str, ...] = ()
    is_refused: bool = False
    """Whether the run would be refused for its rows, its layers or its attention."""
    targets: Targets | None = None
    attention: str = ""
    """What the adapter would be laid on, and what computes attention; nothing where the base is not here."""

    def adapter(self) -> dict[str, str | int]:
        """Return what would be adapted, what not and why, and the attention."""
        return {**self.targets.record(), "attention": self.attention} if self.targets else {}


def preview(plan: Plan) -> Preview:
    """Return what the run of a plan would read, as far as it can be told on this machine."""
    data, settings, chain = plan.data, plan.settings, plan.chain
    folder, refusals, targets, attention = folder_here(settings.base), (), None, ""
    if folder is not None and (folder / "config.json").is_file():
        try:
            if Path(settings.base).expanduser().is_dir():
                weights_files(folder)
            targets, attention = _targets(folder, plan)
        except LabError as error:
            refusals = (str(error),)

    def unread(problem: str = "", *, is_refused: bool = bool(refusals)) -> Preview:
        count, problems = data.count if data else 0, (*refusals, *([problem] if problem else []))
        return Preview(count, count, {}, None, (), problems, is_refused, targets, attention)

    if data is None:
        return unread()
    place = chain.tokenizer_folder if chain else None
    if folder is None or not ((place or folder) / "tokenizer_config.json").is_file():
        return unread(
            f"the tokenizer of {settings.base} is not on this machine, so tokens and lengths cannot"
            " be shown; the first run fetches it."
        )
    try:
        tokenizer = load_tokenizer(Base(settings.base, folder, "", tokenizer=place))
        check_end_token(tokenizer, settings.base)
        kept = data = data.as_sequences(tokenizer)
    except LabError as error:  # rows that the base's template refuses
        return unread(str(error), is_refused=True)
    try:
        kept = fitting(data, settings, tokenizer)
        settings.check_batches(kept.count, plan.launch.processes)
    except LabError as error:
        refusals += (str(error),)
    rows = kept.trl_rows()
    sizes = sorted(length_of(row, tokenizer) for row in {**data.trl_rows(), **rows}.values())
    shown = [
        TokenRow(name, column, tuple(str(tokenizer.decode([each])) for each in found.ids), found.learned)
        for name in list(rows)[:SHOWN]
        for column, found in sequences_of(rows[name], tokenizer).items()
    ]
    return Preview(
        rows=data.count,
        kept=kept.count,
        left_out={f"left out, {why}": count for why, count in kept.left_out.items()},
        lengths=(sizes[0], round(median(sizes)), sizes[-1]),
        examples=tuple(shown),
        problems=refusals or (*notes_of(tokenizer), *kernel_notes(folder)),
        is_refused=bool(refusals),
        targets=targets,
        attention=attention,
    )


def _targets(folder: Path, plan: Plan) -> tuple[Targets, str]:
    """Return what a run would adapt, and its attention; BadConfig as `check_base` raises it."""
    continued = None
    if plan.settings.mode == "continue" and plan.chain and (adapters := last_adapters(plan.chain)):
        continued = plan.chain.adapter_folder(adapters[-1])
    return check_base(skeleton(folder), plan.settings, continued)


def folder_here(source: str) -> Path | None:
    """Return the folder of a base that is on this machine, perhaps without weights; None if it is not here."""
    if source == EMBEDDED:
        unpacked = default_cache() / FOLDER_NAME
        return unpacked if unpacked.is_dir() else folder_here(EMBEDDED_HUB_ID)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    match = HUB_ID.fullmatch(source)
    if match is None:
        return None
    found = cached_file(
        match["name"],
        "tokenizer_config.json",
        revision=match["revision"],
        local_files_only=True,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found).parent if found else None
