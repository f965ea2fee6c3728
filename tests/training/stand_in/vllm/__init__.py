"""A vLLM that needs no GPU: the names that TRL uses for a model beside training, over transformers."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM

__version__ = "0.30.0"
Weights = Iterable[tuple[str, torch.Tensor]]


@dataclass
class SamplingParams:
    """What TRL asks of a batch."""

    n: int
    repetition_penalty: float
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    logprobs: int


@dataclass
class RequestOutput:
    """The answers to one prompt."""

    prompt_token_ids: list[int]
    outputs: list[Any]


class LLM:
    """Answers with the weights that it was last given; `asked_for` says how it was made."""

    def __init__(self, model: str, **options: Any) -> None:
        self.asked_for, self.calls = {"model": model, **options}, []
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        worker = SimpleNamespace(model_runner=SimpleNamespace(model=self))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=worker))

    def load_weights(self, weights: Weights) -> None:
        known = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, weight in weights:
                known[name].copy_(weight)

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset")

    def sleep(self, level: int) -> None:
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(f"wake {tags[0]}")

    def generate(self, prompts: Any, sampling_params: SamplingParams, use_tqdm: bool) -> list[RequestOutput]:
        return [
            RequestOutput(each["prompt_token_ids"], [self._answer(each["prompt_token_ids"], sampling_params)])
            for each in prompts
        ]

    @torch.no_grad()
    def _answer(self, prompt: list[int], told: SamplingParams) -> Any:
        ids, ends = torch.tensor([prompt]), self._model.generation_config.eos_token_id
        tokens, logprobs = [], []
        while len(tokens) < told.max_tokens and (not tokens or tokens[-1] != ends):
            logs = (self._model(input_ids=ids).logits[0, -1] / told.temperature).log_softmax(-1)
            tokens.append(int(torch.multinomial(logs.exp(), 1)))
            logprobs.append({tokens[-1]: SimpleNamespace(logprob=float(logs[tokens[-1]]), rank=1)})
            ids = torch.cat([ids, torch.tensor([tokens[-1:]])], 1)
        return SimpleNamespace(token_ids=tokens, logprobs=logprobs)


NAMES = {
    "vllm.sampling_params": {"StructuredOutputsParams": dict},
    "vllm.utils": {"__path__": []},
    "vllm.utils.network_utils": {"get_ip": None},
    "vllm.distributed": {"__path__": []},
    "vllm.distributed.weight_transfer": {"__path__": []},
    "vllm.distributed.weight_transfer.nccl_common": {"trainer_init": None},
    "vllm.distributed.weight_transfer.packed_tensor": {"packed_nccl_broadcast_producer": None},
}
"""What TRL imports of vLLM, most of it for a server."""
for _name, _members in NAMES.items():
    sys.modules[_name] = ModuleType(_name)
    vars(sys.modules[_name]).update(_members)
