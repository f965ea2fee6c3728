"""Several adapters on one base in memory, each row of a batch with its own set of them.

A stage of a chain is the base plus the adapters up to it, so three stages are three rows of one
batch. Adapters are laid side by side, never merged: A = [A1; A2; ...], B = [B1, B2, ...], and

    y = W x + B (mask * (A x))

where a token's mask keeps the adapters that belong to the stage of its row. This is exact, over 4-bit weights
too. It refuses to know what a stage is: it is told which adapters each row uses. Adapters of another chain
on the same base are added later; a batch computes the adapters of its own chain alone.

A layer is given all tokens of the batch, as (rows, tokens, inputs) or one after another as (tokens, inputs); what it is
given otherwise is refused, as nobody could tell whose a token is. Experts, which are given the tokens that a router
chose, are refused before a model is loaded (`training.models.adapters.unstackable`).
"""

import copy
import ctypes
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import psutil
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from evals.errors import BadConfig, ChainMismatch
from training.models.adapters import Adapter, LoraPair
from training.models.base import accelerator

SLICE_SECONDS, PATIENCE_SECONDS = 0.1, 1.0
"""Background work computes for a slice at a time while somebody waits for an answer, and lets them go first so long at
most: however many ask, it gets a tenth of the time."""


@cache
def _openmp() -> ctypes.CDLL | None:
    """Return the GNU library that torch computes in several threads by; None where it has another."""
    found = next((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"), None)
    return ctypes.CDLL(str(found)) if found else None


def release_threads() -> None:
    """Let go of the threads that are kept for the calling one to compute in; the next product makes them again.

    While those of all callers together are more than there are processors, the library puts them to sleep after each
    product: everybody computes at half the speed.
    """
    if (library := _openmp()) is not None:
        library.omp_pause_resource_all(1)  # omp_pause_soft


class Foreground:
    """The answers that somebody waits for, of all models of a process; `n` counts those that are not done."""

    def __init__(self) -> None:
        self.n, self._changed = 0, threading.Condition()

    @contextmanager
    def answering(self) -> Generator[None]:
        """Have background work stand back until the block ends."""
        with self._changed:
            self.n += 1
        try:
            yield
        finally:
            release_threads()
            with self._changed:
                self.n -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all are answered, or for `PATIENCE_SECONDS`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.n, PATIENCE_SECONDS)


FOREGROUND = Foreground()
FEW_TOKENS = 64
"""Of so many a processor computes a product with few columns fastest in float32, of more in the type of the weights."""


@dataclass
class Columns:
    """Which adapter each column of A x belongs to.

    Of the batch that is computed: `mask` (rows, columns), None = the bare base, and `length`, the tokens of a row.
    """

    owners: tuple[str, ...]
    mask: torch.Tensor | None = None
    length: int = 0

    def of_tokens(self, shape: Sequence[int], layer: str) -> torch.Tensor | None:
        """Return the mask to multiply A x of a layer's inputs with; ChainMismatch for inputs of another shape."""
        if self.mask is None:
            return None
        rows = len(self.mask)
        if len(shape) > 2 and shape[0] == rows and shape[1] <= self.length:
            return self.mask.view(rows, *[1] * (len(shape) - 2), -1)
        if len(shape) == 2 and shape[0] == rows * self.length:
            return self.mask.repeat_interleave(self.length, dim=0)
        raise ChainMismatch(
            f"the layer {layer} is given inputs of shape {tuple(shape)} in a batch of {rows} rows of {self.length}"
            " tokens, so it cannot be told which adapters a token is to use. Train the stage again without this layer"
            " (lora_targets), or merge the adapter into a base of its own (`assay chain import`)."
        )


class Stack:
    """The adapters laid over a model, and which rows use which; `lock` is held while a batch runs."""

    def __init__(self, model: PreTrainedModel, adapters: Mapping[str, Adapter], device: str | None = None) -> None:
        """Replace adapted layers of `model`, in place; ChainMismatch for an adapter of layers that it lacks.

        `device` is where a model computes whose weights come and go; an accelerator where there is one.
        """
        self.model, self.lock = model, threading.Lock()
        self.batcher: Any = None  # the running batch of all who answer with this model, once there is one
        self.adapters: tuple[str, ...] = ()
        self._since: float | None = None  # when the background work that computes now began, or went on
        self._columns: dict[tuple[str, ...], Columns] = {}
        reference = next(model.parameters())
        self._dtype = reference.dtype if reference.dtype.is_floating_point else torch.bfloat16
        is_streamed = reference.device.type == "meta"
        self.device = torch.device(device or accelerator()) if is_streamed else reference.device
        if self.device.type == "cpu":
            self._dtype = (
                torch.float32
            )  # a product of few rows and columns takes a quarter of the time of one in bfloat16
        model.register_forward_pre_hook(self._begin, with_kwargs=True)
        self.add(adapters)

    def add(self, adapters: Mapping[str, Adapter]) -> None:
        """Lay further adapters over the model. Raises as above, and ValueError for a name that is taken."""
        if taken := adapters.keys() & set(self.adapters):
            raise ValueError(
                f"there are adapters called {sorted(taken)} already; what was read with them is kept by name"
            )
        for name, pairs in pairs_by_layer(self.model, adapters).items():
            layer = self.model.get_submodule(name)
            if not isinstance(layer, Adapted):
                layer = Adapted(layer, self._stand_back)
                self.model.set_submodule(name, layer)
            owners = tuple(owner for owner, pair in pairs.items() for _ in range(pair.down.shape[0]))
            whole = join(pairs.values())
            down, up = (each.to(self.device, self._dtype) for each in (whole.down, whole.up))
            columns = self._columns.setdefault(owners, Columns(owners))
            layer.adapters.append(LowRank(name, down, up, columns))
        self.adapters += tuple(adapters)

    @contextmanager
    def rows(self, adapters_of_row: Sequence[frozenset[str]]) -> Generator[None]:
        """Let row i of every batch use `adapters_of_row[i]` until the block ends, however it ends."""
        unknown = frozenset().union(*adapters_of_row) - set(self.adapters)
        if unknown:
            raise KeyError(f"no adapter {sorted(unknown)}; there are {list(self.adapters)}")
        try:
            wanted = frozenset().union(*adapters_of_row)
            for columns in self._columns.values():
                if not wanted.isdisjoint(columns.owners):
                    kept = [[float(owner in adapters) for owner in columns.owners] for adapters in adapters_of_row]
                    columns.mask = torch.tensor(kept, dtype=self._dtype, device=self.device)
            yield
        finally:
            for columns in self._columns.values():
                columns.mask, columns.length = None, 0

    @contextmanager
    def background(self) -> Generator[None]:
        """Let what computes until the block ends stand back, between two layers, for who waits for an answer; `lock` is held."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._since = None
            release_threads()

    def _stand_back(self) -> None:
        """Free `lock` while somebody waits for an answer, and go on with the same rows."""
        if self._since is None or not FOREGROUND.n or time.perf_counter() - self._since < SLICE_SECONDS:
            return
        held = [(columns, columns.mask, columns.length) for columns in self._columns.values()]
        for columns, _, _ in held:
            columns.mask, columns.length = None, 0
        self._since = None
        self.lock.release()
        release_threads()
        try:
            FOREGROUND.wait()
        finally:
            self.lock.acquire()
            self._since = time.perf_counter()
            for columns, mask, length in held:
                columns.mask, columns.length = mask, length

    def _begin(self, _: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Note how many tokens a row of this forward pass has; ValueError if it has other rows than were told of."""
        self._stand_back()
        tokens = named.get("input_ids", inputs[0] if inputs else None)
        tokens = named["inputs_embeds"] if tokens is None else tokens
        for columns in self._columns.values():
            columns.length = tokens.shape[1]
            if columns.mask is not None and len(columns.mask) != len(tokens):
                raise ValueError(f"{len(tokens)} rows were given where the stack was told of {len(columns.mask)}")


class LowRank(nn.Module):
    """Adapters of the layer called `name`: A (columns, inputs) and B (outputs, columns)."""

    def __init__(self, name: str, down: torch.Tensor, up: torch.Tensor, columns: Columns) -> None:
        super().__init__()
        self.name, self.columns = name, columns
        self.down = nn.Parameter(down, False)
        self.up = nn.Parameter(up, False)

    def forward(self, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's outputs with the adapters' part, where a row uses one of them."""
        mask = self.columns.of_tokens(inputs.shape, self.name)
        if mask is None:
            return outputs
        few = inputs.numel() // inputs.shape[-1] <= FEW_TOKENS
        dtype = self.down.dtype if few else outputs.dtype
        low = functional.linear(inputs.to(dtype), self.down.to(dtype)) * mask.to(dtype)
        return outputs + functional.linear(low, self.up.to(dtype)).to(outputs.dtype)


class Packed(nn.Module):
    """A linear layer of a processor, its weights in the order in which few rows are multiplied fastest."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.out_features, self.in_features = layer.out_features, layer.in_features
        self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = layer.bias

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return W x + b."""
        return torch.ops.mkldnn._linear_pointwise(inputs, self.weight, self.bias, "none", [], "")


def pack(model: PreTrainedModel) -> None:
    """Pack the linear layers of a model that answers on a processor, in place, where that is faster.

    Packed weights are held in memory, where others may stay in their file: a model that would fill half of it is left as it is.
    """
    weights, size = next(model.parameters()), sum(each.nbytes for each in model.parameters())
    has_library = weights.device.type == "cpu" and torch.backends.mkldnn.is_available()
    is_known = has_library and (
        weights.dtype == torch.float32
        or (weights.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
    if not is_known or 2 * size > psutil.virtual_memory().total:
        return
    for name in [name for name, layer in model.named_modules() if type(layer) is nn.Linear]:
        model.set_submodule(name, Packed(cast(nn.Linear, model.get_submodule(name))))  # the others are let go of


class Adapted(nn.Module):
    """A layer that is called as it is, whatever its weights are held as, with adapters beside it."""

    def __init__(self, layer: nn.Module, before: Callable[[], None]) -> None:
        super().__init__()
        self.layer, self.adapters, self._before = layer, nn.ModuleList(), before
        self.out_features, self.in_features = shape_of(layer)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's output plus its adapters."""
        self._before()
        outputs = self.layer(inputs)
        for adapters in self.adapters:
            outputs = adapters(inputs, outputs)
        return cast(torch.Tensor, outputs)


def pairs_by_layer(model: nn.Module, adapters: Mapping[str, Adapter]) -> dict[str, dict[str, LoraPair]]:
    """Return layer name -> adapter name -> pair, after checking that every pair fits its layer."""
    layers = dict(model.named_modules())
    targets: dict[str, dict[str, LoraPair]] = {}
    for owner, adapter in adapters.items():
        for name, pair in adapter.pairs.items():
            shape = shape_of(layers[name]) if name in layers else (0, 0)
            if shape != (pair.up.shape[0], pair.down.shape[1]):
                have = f"a layer of shape {shape}" if any(shape) else "no such linear layer"
                raise ChainMismatch(
                    f"the adapter {owner!r} changes {name} ({pair.up.shape[0]}, {pair.down.shape[1]}), but"
                    f" the base has {have}; it was trained on another base model. Name the base that"
                    " it was trained on."
                )
            targets.setdefault(name, {})[owner] = pair
    return targets


def pad_texts(
    texts: Sequence[Sequence[int]], device: torch.device, fill: int = 0, *, at_end: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return texts as tokens (texts, places), filled up before the first or at the end, and which are a text's own."""
    width, lengths = max(map(len, texts)), torch.tensor([[len(each)] for each in texts])
    gaps = [[fill] * (width - len(each)) for each in texts]
    rows = [[*each, *gap] if at_end else [*gap, *each] for each, gap in zip(texts, gaps, strict=True)]
    places = torch.arange(width)
    own = places < lengths if at_end else places >= width - lengths
    return torch.tensor(rows, dtype=torch.long, device=device), own.to(device)


def join(pairs: Collection[LoraPair]) -> LoraPair:
    """Return one pair that adds what all of them add, in float32."""
    return LoraPair(torch.cat([each.down.float() for each in pairs]), torch.cat([each.up for each in pairs], dim=1))


def shape_of(layer: nn.Module) -> tuple[int, int]:
    """Return (outputs, inputs) of a linear layer, packed ones included; zeros for anything else."""
    if isinstance(layer, Conv1D):
        return int(layer.nf), int(layer.nx)
    known = isinstance(layer, nn.Linear | Adapted | Packed)
    return (int(layer.out_features), int(layer.in_features)) if known else (0, 0)


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer computes W x + b with its weights and nothing else, as a class of a model's own need not.

    A copy of it with small weights is tried, so that a layer without weights can be asked, too.
    """
    if type(layer) in (nn.Linear, Conv1D):
        return True
    if isinstance(layer, nn.Linear) and not layer.weight.is_floating_point():  # 4 or 8 bits, which stand for W
        return True
    is_read_past = isinstance(layer, NonDynamicallyQuantizableLinear)  # nn.MultiheadAttention never calls it
    if not isinstance(layer, nn.Linear) or is_read_past or layer._forward_pre_hooks or layer._forward_hooks:
        return False
    small: Any = copy.copy(layer)
    small._parameters = dict(layer._parameters)
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(1, 2, 4, generator=source, device="cpu")
    try:
        small.in_features, small.out_features = 4, 3
        small.weight = nn.Parameter(torch.randn(3, 4, generator=source, device="cpu"), False)
        if small.bias is not None:
            small.bias = nn.Parameter(torch.randn(3, generator=source, device="cpu"), False)
        with torch.no_grad():
            found, expected = small(inputs), functional.linear(inputs, small.weight, small.bias)
            return found.shape == expected.shape and torch.allclose(found, expected)
    except Exception:  # whatever a layer raises that wants other shapes, or returns more than one thing
        return False


def merge_into(model: nn.Module, adapters: Mapping[str, Adapter]) -> None:
    """Add adapters to the weights of `model`, in place, rounded once; BadConfig for quantised layers."""
    targets = pairs_by_layer(model, adapters)
    for name in targets:
        layer = model.get_submodule(name)
        kind, dtype = type(layer), cast(torch.Tensor, layer.weight).dtype
        if dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise BadConfig(
                f"the layer {name} holds quantised weights ({kind.__name__}, {dtype}): adding an adapter would round"
                " most of it away. Use mode stack, which is exact over quantised weights, or load the base in float32"
                " or bfloat16."
            )
        if not is_plain(layer):
            raise BadConfig(
                f"the layer {name} is a {kind.__name__}, which is no plain linear layer: an adapter cannot be added to"
                " its weights alone. Train the stage again with lora_targets all-linear, which leaves such"
                " layers out."
            )
    untie(model, targets)
    with torch.no_grad():
        for name, pairs in targets.items():
            layer = model.get_submodule(name)
            weight = cast(torch.Tensor, layer.weight)
            total = weight.float()
            for pair in pairs.values():
                added = (pair.up @ pair.down.float()).to(total.device)
                total = total + (added.t() if isinstance(layer, Conv1D) else added)
            weight.data = total.to(weight.dtype)


def untie(model: nn.Module, layers: Collection[str]) -> None:
    """Give each of these layers that shares its weights a copy, so that a change reaches no other (lm_head)."""
    named = list(model.named_parameters(remove_duplicate=False))
    for name in layers:
        layer = model.get_submodule(name)
        if sum(each is layer.weight for _, each in named) > 1:
            layer.weight = nn.Parameter(cast(torch.Tensor, layer.weight).detach().clone(), False)
            cast(Any, model).config.get_text_config().tie_word_embeddings = False
            cast(Any, model).config.tie_word_embeddings = False
