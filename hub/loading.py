"""The code on a card that loads a whole chain; a test runs it as it stands."""

from collections.abc import Sequence

from evals.questions import system_prompt
from evals.schema import ChainStage
from evals.schema.publishing import Lineage

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
