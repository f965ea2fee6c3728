"""A vLLM that needs no GPU: the names that TRL uses, over transformers, for a colocated model and for a server."""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


SERVED: list[LLM] = []
"""The model of the server, which stands in this process: the weights need no NCCL to get there."""
INFO = {"weight_transfer_config": {"backend": "nccl"}, "model_config": {"logprobs_mode": "processed_logprobs"}}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        known = {"/v1/models": {"data": [{"id": "base"}]}, "/server_info": {"vllm_config": INFO}, "/health": {}}
        self._reply(known[self.path.partition("?")[0]])

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        SERVED[0].calls.append(self.path)
        if self.path != "/v1/completions":
            self._reply({"success": True})
            return
        names = SamplingParams.__dataclass_fields__.keys() & told.keys()
        asked = SamplingParams(**{name: told[name] for name in names})
        choices = []
        for prompt in told["prompt"]:
            for _ in range(asked.n):
                (answer,) = SERVED[0].generate([{"prompt_token_ids": prompt}], asked, False)[0].outputs
                values = [next(iter(each.values())).logprob for each in answer.logprobs]
                shown = [f"token_id:{token}" for token in answer.token_ids]
                logprobs = {"tokens": shown, "token_logprobs": values, "top_logprobs": [None] * len(shown)}
                choices.append({"prompt_token_ids": prompt, "token_ids": answer.token_ids, "logprobs": logprobs})
        self._reply({"choices": choices})

    def _reply(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(model: str, port: int) -> None:
    """Serve a model from this process, as `vllm serve` does from its own."""
    SERVED.append(LLM(model))
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _send(iterator: Iterator[Any], group: object, src: int, post_iter_func: Callable[[Any], torch.Tensor]) -> None:
    """Take all tensors before the first is used, as the packed broadcast may."""
    packed = [(each[0], post_iter_func(each)) for each in iterator]
    SERVED[0].load_weights(packed)


def _offer(name: str, **members: object) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


_offer("vllm.sampling_params", StructuredOutputsParams=dict)
_offer("vllm.utils.network_utils", get_ip=lambda: "127.0.0.1")
_offer("vllm.distributed.weight_transfer.nccl_common", trainer_init=None)
_offer("vllm.distributed.weight_transfer.packed_tensor", packed_nccl_broadcast_producer=_send)
for _name in ("utils", "distributed", "distributed.weight_transfer"):
    _offer(f"vllm.{_name}", __path__=[])
