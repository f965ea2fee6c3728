"""All that Assay uses of TRL, transformers and PEFT beyond what they promise to keep, in one file.

Checked against the versions in `CHECKED`. After an update run tests/training/test_runs.py: it names every
class, method and field that is gone or is called in another way, with what here rests on it.

- `SafeTrainer`, `PairTrainer`, `SampledTrainer`: a run can be killed at any moment and goes on exactly. TRL keeps sampled answers in
  memory alone, so checkpoints wait for the step that uses them up; its sampler starts each pass from one generator,
  which is moved on by the passes that are done; a loss that is no number is replaced in the log, and here stops the run.
- `StackedPeftModel`: frozen adapters that stay at work below the one that learns.
"""

import asyncio
import copy
import gc
import json
import math
import os
import re
import shutil
import time
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

import torch
from accelerate.utils import DistributedType
from bitsandbytes.nn import Linear4bit
from peft import PeftModel, PeftModelForCausalLM, get_peft_model_state_dict
from peft.tuners import lora
from peft.tuners.lora import LoraLayer
from peft.tuners.lora.layer import LoraVariant
from peft.tuners.tuners_utils import BaseTuner
from peft.utils import CONFIG_NAME
from peft.utils import SAFETENSORS_WEIGHTS_NAME as WEIGHTS_NAME
from peft.utils.integrations import dequantize_bnb_weight
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerState, TrainingArguments
from transformers.integrations.deepspeed import unset_hf_deepspeed_config
from transformers.modeling_outputs import SequenceClassifierOutput
from trl.trainer.utils import RepeatSampler, use_adapter

from evals.errors import BadConfig, TrainingStopped
from evals.io import sha256_of, write_folder, write_whole
from training.run.checkpoints import PREFIX, failed_checkpoint, remove_old_checkpoints, seal

CHECKED: Mapping[str, str] = {"trl": "1.16.0", "transformers": "5.23.0", "peft": "0.21.2"}
TRAINED = "default"
"""PEFT's and TRL's name for the adapter that learns."""
REFERENCE = "ref"
"""TRL's name for its frozen copy of the adapter as it was before the first step."""
OWN_EXPERT = re.compile(r"\bexperts\.\d+\.")
"""In the name of a weight: an expert that is a layer of its own, and reads what is routed to it alone."""
TOTALS = "totals.json"
"""In a checkpoint: the sum of the losses so far, which the log has means of, and the seconds they took."""
TORCH_COULD_NOT_WRITE = ("PytorchStreamWriter", "inline_container.cc")
"""In the message of the RuntimeError that torch.save raises when the disk refuses."""


class SafeTrainer(Trainer):
    """Stands before TRL's trainer in a class: sealed checkpoints, exact resume, silence to the Hub."""

    keep_checkpoints: int = 2
    passes_done: int = 0
    """How often the data had been used up when the checkpoint was written that training goes on from."""
    loss_sum: float | None = 0.0
    """Of the losses of all steps of the run; None where a checkpoint did not tell those before it."""

    @classmethod
    def before(cls, trainer: Any) -> type[Self]:
        """Return TRL's trainer, safe to kill at any moment."""
        return cast(type[Self], type(f"Safe{trainer.__name__}", cast(Any, (cls, trainer)), {}))

    def __init__(self, *inputs: Any, args: TrainingArguments, **options: Any) -> None:
        super().__init__(*inputs, args=on_one_device(args), **options)
        self._began = time.monotonic()
        self._losses: list[torch.Tensor] = []
        policy = self.accelerator.unwrap_model(self.model)
        told = policy.config.get_text_config()
        if not hasattr(told, "num_experts") and hasattr(told, "num_local_experts"):
            told.num_experts = told.num_local_experts  # TRL's loss reads this name alone; Granite has the other
        if isinstance(policy, StackedPeftModel):
            is_divided = self.is_fsdp_enabled or self.is_deepspeed_enabled
            policy.take_back(is_read_elsewhere=is_divided or getattr(self.args, "use_vllm", False))
            if self.accelerator.distributed_type in (DistributedType.MULTI_GPU, DistributedType.MULTI_CPU):
                with self.accelerator.autocast():
                    cast(Any, self.accelerator.ddp_handler).find_unused_parameters = not policy.uses_every_weight()

    def _send_telemetry(self) -> None:
        """Tell nobody."""

    def create_model_card(self, *names: Any, **options: Any) -> None:
        """Write nothing: the card is written from the run folder, when the run is over."""

    def is_between_rounds(self) -> bool:
        """Whether the next step needs nothing that is in memory alone."""
        return True

    def get_batch_samples(self, *inputs: Any, **options: Any) -> Any:
        """Return the rows of the next step; none where the last one was taken before a kill."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return [], None
        return super().get_batch_samples(*inputs, **options)

    def training_step(self, *inputs: Any, **options: Any) -> torch.Tensor:
        """Return the loss; TrainingStopped, before the optimizer steps, if one of the step's is not a finite number.

        The losses of a step are read from the device together, so that no micro-batch waits for the one before it.
        """
        loss = super().training_step(*inputs, **options)
        self._losses.append(loss.detach().float())
        if self.accelerator.sync_gradients:
            values = torch.stack(self._losses).tolist()
            self._losses.clear()
            for value in values:
                if not math.isfinite(value):
                    raise TrainingStopped(
                        f"the loss at step {self.state.global_step + 1} is {value}; nothing was learned"
                        " from it, and the last checkpoint is kept. Lower learning_rate or max_grad_norm, look"
                        " at the rows, or use autocast none, and train again with --overwrite."
                    )
                if self.loss_sum is not None:
                    self.loss_sum += value
        return loss

    def prediction_step(self, model: nn.Module, *inputs: Any, **options: Any) -> Any:
        """Return the loss on rows that are held out."""
        keep_4bit(model)
        return super().prediction_step(model, *inputs, **options)

    def restore_totals(self, checkpoint: Path) -> None:
        """Restore our own totals from a checkpoint: passes over the data, losses and time. `train` restores all the rest."""
        state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        self.passes_done = int((state.epoch or 0.0) + 1e-6)
        file = checkpoint / TOTALS
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        self.loss_sum = known.get("loss_sum")
        self._began -= known.get("seconds", 0.0)

    @property
    def seconds(self) -> float:
        """How long the run has trained, the parts before a checkpoint included."""
        return time.monotonic() - self._began

    def losses_so_far(self) -> float | None:
        """Return the sum of the losses of all steps, the mean over the processes; every process has to ask."""
        if self.loss_sum is None:
            return None
        here = torch.tensor(self.loss_sum, dtype=torch.float64, device=self.args.device)
        return float(self.accelerator.reduce(here, "mean"))

    def check_agreement(self) -> None:
        """Raise TrainingStopped if the processes no longer hold the same weights; every process has to ask.

        Only one of them is ever written. Weights that are divided among them are not compared.
        """
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            return
        policy = self.accelerator.unwrap_model(self.model)
        trained = [each.detach().contiguous() for each in policy.parameters() if each.requires_grad]
        sums = torch.stack([each.view(torch.uint8).sum(dtype=torch.int64) for each in trained])  # of bytes: exact
        of_all = self.accelerator.gather(sums[None])
        if not bool((of_all == of_all[0]).all()):
            raise TrainingStopped(
                f"the processes hold different weights after step {self.state.global_step}, so they no"
                " longer train one model; nothing more is saved, and the checkpoint before is kept. Train"
                " in one process (--profile cpu or single-gpu), and report this with the run's run.json."
            )

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter as it is now, gathered where each process holds a part; every process has to ask."""
        is_divided = self.is_fsdp_enabled or self.is_deepspeed_enabled
        weights = self.accelerator.get_state_dict(self.model_wrapped) if is_divided else None
        if self.is_world_process_zero():
            write_adapter(self.accelerator.unwrap_model(self.model), folder, weights)

    def write(self, folder: Path) -> bool:
        """Write the adapter to `folder` and let go of the model; return whether this process did.

        Every process has to ask. The trainer is of no use afterwards: measuring the new stage takes a
        base of its own, and two would not fit where one just does.
        """
        self.check_agreement()
        self.save_adapter(folder)
        self.accelerator.free_memory()
        self.optimizer = self.lr_scheduler = None
        self.callback_handler.model = self.callback_handler.optimizer = None
        self.callback_handler.lr_scheduler = self.callback_handler.train_dataloader = None
        self.model = self.model_wrapped = None
        gc.collect()
        unset_hf_deepspeed_config()  # or the next base would be loaded in parts, with processes that have gone
        os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
        return self.is_world_process_zero()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint and seal it; the ones before it go only then.

        Raises TrainingStopped, the checkpoints before it being kept, if it cannot be written whole, a
        weight in it is not a finite number, or the processes do not agree on it.
        """
        self.check_agreement()
        run = Path(str(self.args.output_dir))
        checkpoint = run / f"{PREFIX}{self.state.global_step}"
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        here = (each.to_local() if isinstance(each, DTensor) else each for each in trained)
        if not all(bool(torch.isfinite(each).all()) for each in here):
            raise TrainingStopped(
                f"a trained weight is not a finite number after step {self.state.global_step}, so it is"
                " not saved; the checkpoint before it is kept. Lower learning_rate and train anew with"
                " --overwrite."
            )
        try:
            if self.args.should_save:
                shutil.rmtree(checkpoint, ignore_errors=True)
            super()._save_checkpoint(model, trial)
            losses = self.losses_so_far()
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                write_whole(checkpoint / TOTALS, json.dumps({"loss_sum": losses, "seconds": self.seconds}))
                seal(checkpoint)
        except (OSError, SafetensorError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not any(each in str(error) for each in TORCH_COULD_NOT_WRITE):
                raise
            raise failed_checkpoint(run, checkpoint, error) from error
        if self.args.should_save:
            remove_old_checkpoints(run, self.keep_checkpoints)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Return the schedule; BadConfig if the fall of warmup_stable_decay does not fit behind the warmup."""
        options = cast(dict[str, Any], self.args.lr_scheduler_kwargs or {})
        if decay := options.get("num_decay_steps"):
            steps = math.ceil(decay * num_training_steps) if decay < 1 else int(decay)
            if steps + self.args.get_warmup_steps(num_training_steps) > num_training_steps:
                raise BadConfig(
                    f"warmup {self.args.warmup_steps:g} and decay {decay:g} are more than the {num_training_steps} steps of"
                    " the run; lower one of them, or give shares of all steps, such as 0.1."
                )
            self.args.lr_scheduler_kwargs = {**options, "num_decay_steps": steps}
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_train_sampler(self, *inputs: Any, **options: Any) -> Any:
        """Return TRL's sampler, moved on by the passes that a resumed run has behind it."""
        sampler = super()._get_train_sampler(*inputs, **options)
        if isinstance(sampler, RepeatSampler) and sampler.shuffle:
            for _ in range(self.passes_done):
                torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler


def keep_4bit(model: nn.Module) -> None:
    """Leave layers with 4-bit weights in training mode, where the rest of the model is not.

    On a processor bitsandbytes 0.50 repacks the weights of one that is not, for good, into a form that gradients
    do not pass.
    """
    for layer in model.modules():
        if isinstance(layer, Linear4bit):
            layer.training = True


def on_one_device(told: TrainingArguments) -> TrainingArguments:
    """Return the same training arguments for one device, however many the process sees.

    Else Trainer spreads the model of a single process over all GPUs (DataParallel), which TRL refuses.
    """
    told = copy.copy(told)
    told._n_gpu = min(1, told.n_gpu)
    return told


class PairTrainer(SafeTrainer):
    """The same for TRL's DPOTrainer and KTOTrainer, which are given tokens: prompt_ids and the ids of each answer.

    TRL would leave out the end of a question that the chat template writes in another way before an answer.
    """

    def _prepare_dataset(self, dataset: Any, *inputs: Any) -> Any:
        """Return the rows, which are tokens already."""
        return dataset


class ScoreTrainer(PairTrainer):
    """The same for TRL's RewardTrainer, which is given chosen_ids and rejected_ids and a language model for a scorer.

    The score of a text is the logit of the first of `tokens` less that of the second as the next one.
    """

    tokens: tuple[int, int]

    @classmethod
    def scoring(cls, trainer: Any, tokens: tuple[int, int]) -> type[Self]:
        """Return TRL's trainer with the tokens that make a score."""
        made = cls.before(trainer)
        made.tokens = tokens
        return made

    def compute_loss(self, model: nn.Module, inputs: Any, *others: Any, **options: Any) -> Any:
        """Return TRL's loss of the scores."""

        def scored(input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> SequenceClassifierOutput:
            logits = next_token_logits(model, input_ids, attention_mask)
            yes, no = self.tokens
            return SequenceClassifierOutput(logits=cast(Any, logits[:, yes] - logits[:, no])[:, None])

        return cast(Any, super()).compute_loss(scored, inputs, *others, **options)


def next_token_logits(model: nn.Module, ids: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    """Return the logits (texts, vocabulary) behind the last token of texts that are padded on the right."""
    places, of = (attended.sum(dim=1) - 1).unique(return_inverse=True)
    outputs = model(input_ids=ids, attention_mask=attended, use_cache=False, logits_to_keep=places)
    return outputs.logits[torch.arange(len(of), device=of.device), of]


class SampledTrainer(SafeTrainer):
    """The same for TRL's GRPOTrainer."""

    def is_between_rounds(self) -> bool:
        """Whether the sampled answers, which are in memory alone, have been used up."""
        trainer = cast(Any, self)
        return trainer._step % ((trainer.args.steps_per_generation or 1) * trainer.num_iterations) == 0

    def run_async(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for work inside the loop that asks the rewards."""
        asyncio.run_coroutine_threadsafe(work, cast(Any, self).async_loop).result()


class Sum(LoraVariant):
    """PEFT's y + s B (A x) of a linear layer, in fewer passes over what is as long as the text and as wide as the layer.

    s multiplies A x, which is the narrowest; under autocast x is not made float32, which autocast would only undo.
    """

    @staticmethod
    def forward(
        module: LoraLayer, active_adapter: str, x: torch.Tensor, result: torch.Tensor, **_: Any
    ) -> torch.Tensor:
        """Return the layer's outputs `result` plus the adapter's part for the inputs `x`."""
        layer = cast(Any, module)
        down, up = layer.lora_A[active_adapter], layer.lora_B[active_adapter]
        if not torch.is_autocast_enabled(x.device.type):
            x = x.to(down.weight.dtype)
        return result + up(down(layer.lora_dropout[active_adapter](x)) * layer.scaling[active_adapter])


class StackedPeftModel(PeftModelForCausalLM):
    """A PeftModel whose `frozen` adapters stay active and untrained, whichever other one is chosen."""

    frozen: tuple[str, ...] = ()
    is_rounded: bool = False
    """Whether training computes under bfloat16 autocast: answers are then written so too."""
    starts_at_zero: bool = False
    """Whether the adapter that learns changes nothing before the first step."""
    _is_handed_over: bool = False

    def freeze_below(self, adapters: Mapping[str, Path]) -> None:
        """Load adapters, by stage, under the one that learns; in training they compute what they do in use."""
        names = {f"earlier_{stage}": folder for stage, folder in adapters.items()}
        for name, folder in names.items():
            self.load_adapter(str(folder), adapter_name=name)
        self.frozen = tuple(names)
        for module in self.modules():
            if isinstance(module, LoraLayer):
                for name in set(names) & set(module.lora_dropout):
                    module.lora_dropout[name] = nn.Identity()
                for pairs in (module.lora_A, module.lora_B):  # accelerate finds weights by their place in memory
                    if (learned := cast(Any, pairs)[TRAINED]).weight.is_meta:
                        learned.to_empty(device="cpu").weight.data.zero_()
        self.set_adapter(TRAINED)

    def set_adapter(self, adapter_name: str | Sequence[str], inference_mode: bool = False) -> None:
        """Activate it on top of the frozen adapters; it comes first (Trainer resumes that); only `default` learns."""
        chosen = [adapter_name] if isinstance(adapter_name, str) else list(adapter_name)
        self.active_adapter = chosen[0]
        others = [name for name in chosen if name not in self.frozen]
        self._tuner().set_adapter([*others, *self.frozen])
        for module in self.modules():
            if isinstance(module, lora.Linear | lora.Linear4bit):
                module.cast_input_dtype_enabled = False
                module.lora_variant.update(dict.fromkeys(module.lora_A, Sum()))
        learns = chosen[0] == TRAINED and not inference_mode
        for name, parameter in self.named_parameters():
            if ".lora_" in name:
                parameter.requires_grad_(learns and f".{TRAINED}." in name)

    def load_adapter(
        self,
        model_id: str | os.PathLike[str],
        adapter_name: str = TRAINED,
        is_trainable: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Load weights as PEFT does; only `default` is ever trainable, whatever a caller asks."""
        learns = is_trainable and adapter_name == TRAINED
        result = super().load_adapter(model_id, adapter_name, learns, *args, **kwargs)
        if set(self.frozen) <= set(self.peft_config):
            self.set_adapter(TRAINED)
        return result

    def take_back(self, is_read_elsewhere: bool = False) -> None:
        """Undo what TRL did to the policy: its own adapter was chosen, and that of a 4-bit base rounded.

        In bfloat16 a weight keeps 8 bits, so that a step below 1/512 of it is lost: all of them at the
        learning rates of preference training. Frozen adapters that were written in bfloat16 are held so where autocast
        would round them for each token, unless they are divided among processes or added for vLLM, which takes float32.
        A reference that is the frozen adapters alone needs no copy of the new one.
        """
        for name, parameter in self.named_parameters():
            if ".lora_" in name:
                parameter.data = parameter.data.float()
                if self.is_rounded and not is_read_elsewhere and any(f".{each}." in name for each in self.frozen):
                    rounded = parameter.data.bfloat16()
                    parameter.data = rounded if torch.equal(rounded.float(), parameter.data) else parameter.data
        if self.starts_at_zero and REFERENCE in self.peft_config:
            self.delete_adapter(REFERENCE)
        self.set_adapter(TRAINED)

    @contextmanager
    def without_dropout(self) -> Generator[None]:
        """Be in evaluation mode inside the block."""
        was_training = self.training
        self.eval()
        keep_4bit(self)
        try:
            yield
        finally:
            self.train(was_training)

    def uses_every_weight(self) -> bool:
        """Whether every trained weight has a part in what is computed of any text, by the gradients of a short one.

        False too where that depends on the text or on chance: an expert that is a layer of its own, layers dropped.
        """
        learned = {name: each for name, each in self.named_parameters() if each.requires_grad}
        if any(OWN_EXPERT.search(name) for name in learned) or getattr(self.config, "layerdrop", 0):
            return False
        ids = torch.arange(1, 9, device=self.device)[None] % self.get_input_embeddings().weight.shape[0]
        with self.without_dropout(), torch.enable_grad():
            logits = self(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
            found = torch.autograd.grad(logits.float().sum(), list(learned.values()), allow_unused=True)
        return all(each is not None for each in found)

    def generate(self, *inputs: Any, **options: Any) -> Any:
        """Write answers in the arithmetic that they are scored in."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_rounded):
            return super().generate(*inputs, **options)

    @contextmanager
    def disable_adapter(self) -> Generator[None]:
        """Answer as base + frozen adapters inside the block."""
        chosen = self.active_adapter
        self._tuner().set_adapter([*self.frozen])
        try:
            yield
        finally:
            self.set_adapter(chosen)

    @contextmanager
    def as_reference(self) -> Generator[None]:
        """Answer as before the first step inside the block."""
        with use_adapter(self, REFERENCE if REFERENCE in self.peft_config else None):
            yield

    def save_pretrained(
        self,
        save_directory: str,
        safe_serialization: bool = True,
        selected_adapters: list[str] | None = None,
        save_embedding_layers: str | bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Save `default` alone, no embeddings: the frozen adapters and TRL's `ref` have their own places."""
        super().save_pretrained(save_directory, safe_serialization, [TRAINED], save_embedding_layers, *args, **kwargs)

    def merge_adapter(self, adapter_names: list[str] | None = None, safe_merge: bool = False) -> None:
        """Show the weights with the active adapters added, until `unmerge_adapter`, as TRL wants them for vLLM."""
        self._is_handed_over = True

    def unmerge_adapter(self) -> None:
        """Show the weights as they are."""
        self._is_handed_over = False

    def named_parameters(self, *inputs: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the weights; those to be handed over are sums that are made one at a time, so the base stays as it is.

        Rounded once. PEFT would add to the base itself and subtract again, which rounds it a little each time.
        """
        for name, weight in super().named_parameters(*inputs, **options):
            if self._is_handed_over and ".lora_" not in name:
                layer = self.get_submodule(name.rpartition(".")[0].removesuffix(".base_layer"))
                active = [each for each in getattr(layer, "active_adapters", ()) if each in cast(Any, layer).lora_A]
                with torch.no_grad():
                    whole = dequantize_bnb_weight(weight) if hasattr(weight, "quant_state") else weight.data
                    if name.endswith(".base_layer.weight"):
                        sums = (cast(Any, layer).get_delta_weight(each).float() for each in active)
                        whole = sum(sums, whole.float()).to(whole.dtype)
                    weight = nn.Parameter(whole, requires_grad=False)
            yield name, weight

    def _tuner(self) -> BaseTuner:
        tuner = self.base_model
        assert isinstance(tuner, BaseTuner)
        return tuner


def write_adapter(model: PeftModel, folder: Path, weights: dict[str, torch.Tensor] | None = None) -> str:
    """Write the trained adapter (or gathered `weights`) in bfloat16, whole, to `folder`; return its SHA-256."""
    tensors = get_peft_model_state_dict(model, state_dict=weights, adapter_name=TRAINED, save_embedding_layers=False)
    rounded = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    config = copy.copy(model.peft_config[TRAINED])  # training may go on
    config.inference_mode = True
    with write_folder(folder) as whole:
        config.save_pretrained(str(whole))
        save_file(rounded, whole / WEIGHTS_NAME, metadata={"format": "pt"})
        for name in (CONFIG_NAME, WEIGHTS_NAME):
            (whole / name).chmod(0o644)
    return sha256_of(folder / WEIGHTS_NAME)
