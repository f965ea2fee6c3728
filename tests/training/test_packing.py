import pytest
import torch
from transformers import AutoModelForCausalLM

from evals.errors import BadConfig
from tests.models import tiny_base
from tests.training.runs import SFT, one_thread, record, settings_file
from training import sft
from training.config import SftSettings, read_request
from training.data.packing import check_packing

__all__ = ["one_thread"]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_rows_packed_together_do_not_see_each_other(tmp_path, attention: str):
    model = AutoModelForCausalLM.from_pretrained(
        tiny_base(tmp_path), attn_implementation=attention, dtype=torch.float32
    )
    check_packing(model.eval())


def test_a_model_that_lets_packed_rows_see_each_other_is_refused(tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_base(tmp_path), dtype=torch.float32)
    honest = model.forward
    model.forward = lambda position_ids=None, **others: honest(**others)
    with pytest.raises(BadConfig, match="lets packed rows see each other"):
        check_packing(model.eval())


def losses(folder, **values: object) -> list[float]:
    file = settings_file(folder, {**SFT, "max_steps": 1, "learning_rate": 1e-9, **values})
    sft.train(read_request(SftSettings, ["--config", str(file)]))
    return record(folder / "run")["result"]["train_loss"]


def test_packed_rows_give_the_loss_of_rows_apart(tmp_path):
    apart = losses(tmp_path / "apart", batch=8)
    packed = losses(tmp_path / "packed", batch=8, packing=True, max_length=1024)
    assert packed == pytest.approx(apart, abs=1e-5)
