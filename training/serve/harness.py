"""The local chain as a model class of EleutherAI's lm-evaluation-harness, with log-likelihoods and without a server.

    python -m training.serve.harness run --model assay --model_args chain=embedded,stage=grpo --tasks arc_easy

The harness (`pip install lm_eval`, which Assay does without) finds a model class by its name only once it is registered; this
command does that and hands over to the harness's own. A stage is scored on the text that the harness writes, without the chain's
system prompt unless `--apply_chat_template` and `--system_instruction` are given.
"""

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from evals.errors import LabError, MissingModel
from evals.stats.intervals import paired_mean
from training.models.chain import LoadedChain, load_chain
from training.models.stack import pad_texts

NAME = "assay"
PER_UNIT = {
    "word_perplexity": "log-likelihood per word",
    "byte_perplexity": "log-likelihood per byte",
    "bits_per_byte": "log-likelihood per byte",
}
"""Metrics over all texts, and what a single text has of them, in nats."""
USUAL_TOKENS = 256
"""Longest answer where a task does not say."""


def of_harness(module: str) -> Any:
    """Return a module of the harness; LabError if it is not installed."""
    try:
        return importlib.import_module(f"lm_eval.{module}")
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("lm_eval"):
            raise
        raise LabError(
            "lm-evaluation-harness is not installed here; install it beside Assay (pip install lm_eval)."
        ) from None


class ChainModel:
    """What `TemplateLM` of the harness leaves to a model: tokens, log-likelihoods and texts of one stage of a chain."""

    def __init__(
        self, chain: str | LoadedChain = "embedded", stage: str = "", batch_size: int | str = 8, **_: object
    ) -> None:
        super().__init__()
        self.chain = chain if isinstance(chain, LoadedChain) else load_chain(chain)
        self.stage = stage or self.chain.stages[-1]
        if self.stage not in self.chain.stages:
            raise MissingModel(f"no stage {self.stage!r}; this chain has {', '.join(self.chain.stages)}.")
        self.batch = int(batch_size) if str(batch_size).isdigit() else 8
        self.tokenizer = self.chain.tokenizer
        config: Any = self.chain.stack.model.config
        self.max_length = int(getattr(config.get_text_config(), "max_position_embeddings", 0) or 2048)

    @property
    def eot_token_id(self) -> int:
        """The token that stands before a text without a context."""
        start = self.tokenizer.bos_token_id
        return int(self.chain.ends[0] if start is None else start)

    @property
    def tokenizer_name(self) -> str:
        """What requests are cached under."""
        return f"{self.chain.manifest.name}-{self.stage}".replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: object) -> list[int]:
        """Return the tokens of a text as the base reads it."""
        return list(self.tokenizer(string, add_special_tokens=bool(add_special_tokens))["input_ids"])

    def apply_chat_template(self, chat_history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        """Return a conversation as the chain's template writes it."""
        turns = [dict(turn) for turn in chat_history]
        return str(
            self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=add_generation_prompt)
        )

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, Sequence[int], Sequence[int]]], **_: object
    ) -> list[tuple[float, bool]]:
        """Return of each continuation the log-probability behind its context, and whether greedy decoding writes it."""
        texts = [([*before, *after][-self.max_length - 1 :], len(after)) for _, before, after in requests]
        order = sorted(range(len(texts)), key=lambda at: len(texts[at][0]))
        found: dict[int, tuple[float, bool]] = {}
        for start in range(0, len(order), self.batch):
            some = order[start : start + self.batch]
            found |= zip(some, self._scored([texts[at] for at in some]), strict=True)
        return [found[at] for at in range(len(texts))]

    def _scored(self, texts: Sequence[tuple[list[int], int]]) -> Iterable[tuple[float, bool]]:
        stack = self.chain.stack
        rows, own = pad_texts([ids[:-1] for ids, _ in texts], stack.device, at_end=True)
        with torch.inference_mode(), stack.lock, stack.rows([self._adapters()] * len(texts)):
            logits = stack.model(input_ids=rows, attention_mask=own.long(), use_cache=False).logits
        for (ids, count), row in zip(texts, logits, strict=True):
            table = row[len(ids) - 1 - count : len(ids) - 1].float().log_softmax(-1)
            wanted = torch.tensor(ids[-count:], device=table.device)
            is_greedy = bool((table.argmax(-1) == wanted).all())
            yield float(table.gather(1, wanted[:, None]).sum()), is_greedy

    def loglikelihood_rolling(self, requests: Sequence[Any], **_: object) -> list[float]:
        """Return the log-probability of whole texts, longer ones in windows that do not overlap."""
        tools, found = of_harness("utils"), []
        for request in requests:
            (text,) = request.args
            windows = tools.get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.eot_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            parts = [(None, *map(list, tools.make_disjoint_window(each))) for each in windows]
            found.append(sum(score for score, _ in self._loglikelihood_tokens(parts)))
        return found

    def generate_until(self, requests: Sequence[Any], **_: object) -> list[str]:
        """Return what a stage writes behind each context, up to one of the texts that a task stops at."""
        stack, found = self.chain.stack, []
        for request in requests:
            context, told = request.args
            until = told.get("until") or []
            stops = [until] if isinstance(until, str) else [*until]
            most, warmth = int(told.get("max_gen_toks", USUAL_TOKENS)), float(told.get("temperature") or 0.0)
            ids = torch.tensor([self.tok_encode(context)[most - self.max_length :]], device=stack.device)
            drawn: dict[str, Any] = {"do_sample": False}
            if told.get("do_sample") and warmth:
                drawn = {"do_sample": True, "temperature": warmth, "top_p": float(told.get("top_p", 1.0))}
            ends = {"eos_token_id": list(self.chain.ends), "pad_token_id": self.chain.ends[0]}
            stopping = {"stop_strings": stops, "tokenizer": self.tokenizer} if stops else {}
            with torch.inference_mode(), stack.lock, stack.rows([self._adapters()]):
                model: Any = stack.model
                whole = model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, **drawn, **ends, **stopping
                )
            text = str(self.tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True))
            for stop in stops:
                text = text.partition(stop)[0] if stop else text
            found.append(text)
        return found

    def _adapters(self) -> frozenset[str]:
        return self.chain.adapters_of_stage[self.stage]


def model_class() -> type[Any]:
    """Return the model class of a stage as the harness takes it, registered as `assay`."""
    made = type("AssayLM", (ChainModel, of_harness("api.model").TemplateLM), {})
    of_harness("models")  # its own first
    registry = of_harness("api.registry")
    if NAME not in registry.model_registry:
        registry.register_model(NAME)(made)
    return made


# ---- what each stage knows, before and after ---------------------------------------------------------


class TaskScore(NamedTuple):
    """One metric of a task at one stage, and by how much it differs from the stage before, on the same questions.

    `low` to `high` is the 95 % interval of the difference, `p` of swapping the two stages within questions.
    """

    task: str
    metric: str
    stage: str
    n: int
    value: float
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


def forgetting(
    chain: LoadedChain,
    stages: Sequence[str],
    tasks: Sequence[str],
    include_path: str | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> list[TaskScore]:
    """Return every task's metrics at every stage, each stage against the one before; LabError for an unknown task."""
    made, harness = model_class(), of_harness("evaluator")
    manager = of_harness("tasks").TaskManager(include_path=include_path)
    if unknown := sorted(set(tasks) - {*manager.all_tasks}):
        raise LabError(
            f"the harness knows no task {', '.join(unknown)}; `lm_eval ls tasks` lists its own, --include-path names a"
            " folder of others."
        )
    found: list[TaskScore] = []
    before: dict[tuple[str, str], dict[object, float]] = {}
    for stage in stages:
        told = {"tasks": [*tasks], "limit": limit, "task_manager": manager, "bootstrap_iters": 0, "log_samples": True}
        result = harness.simple_evaluate(model=made(chain, stage), **told)
        for task, metric, values in _by_question(result["samples"]):
            first = before.get((task, metric))
            score = TaskScore(task, metric, stage, len(values), float(np.mean([*values.values()])))
            if first is not None and first.keys() == values.keys():
                was, now = (np.array([side[key] for key in values]) for side in (first, values))
                change, span, p = paired_mean(was, now, seed=seed)
                low, high = span or (None, None)
                score = score._replace(change=change, low=low, high=high, p=p)
            before[task, metric] = values
            found.append(score)
    return sorted(found, key=lambda each: (each.task, each.metric))


def _by_question(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterable[tuple[str, str, dict[object, float]]]:
    """Yield task, metric and its value for each question; of several filters the last, as the harness lists them."""
    for task, rows in samples.items():
        values: dict[str, dict[object, float]] = {}
        for row in rows:
            for metric in row["metrics"]:
                found = row[metric]
                if metric in PER_UNIT:  # the harness keeps the log-likelihood of a text and its length
                    values.setdefault(PER_UNIT[metric], {})[row["doc_id"]] = float(found[0]) / found[1]
                elif isinstance(found, bool | int | float | np.floating | np.integer):
                    values.setdefault(metric, {})[row["doc_id"]] = float(found)
        yield from ((task, metric, of_metric) for metric, of_metric in values.items())


if __name__ == "__main__":
    model_class()
    sys.exit(of_harness("__main__").cli_evaluate())
