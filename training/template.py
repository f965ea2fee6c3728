"""How a base is asked whose chat template is missing, has no turn for a system prompt, or opens a thought.

Models that were only pre-trained, such as Mistral-7B-v0.3, have none and are asked as in the published
runs; Gemma 2's refuses a system prompt, which then stands before the first question. DeepSeek-R1's ends
every question with an open <think>, though it writes answers without one: asked without reasoning, as
reviewers are taught and asked, it would be in the middle of a thought that no lesson had. What is written
for them is part of the chain like any template: its checksum is stored, and the stage is served with it.
"""

import re

from transformers import PreTrainedTokenizerBase

from training.counting import takes_system
from training.lengths import NO_THOUGHT

BEFORE_QUESTION = (
    "{% if messages|length > 1 and messages[0]['role'] == 'system' %}"
    "{% set messages = [{'role': messages[1]['role'],"
    " 'content': messages[0]['content'] + '\n\n' + messages[1]['content']}] + messages[2:] %}"
    "{% endif %}"
)
"""Put before a template without a turn for a system prompt."""

OPEN_THOUGHT = re.compile(r"<think>\s*\Z")
"""How a question ends after which a model goes on thinking."""
AS_WRITTEN = "{% set written %}"
UNLESS_OPEN = (
    "{% endset %}{% set thought = THOUGHT %}"
    "{{ written[:-(thought|length)] if enable_thinking is defined and not enable_thinking"
    " and written.endswith(thought) else written }}"
)
"""Put around a template that opens a thought even where it is told that there is to be none."""

INSTRUCTION = (
    "{{ bos_token if bos_token else '' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
    "{% elif message['role'] == 'user' %}"
    "{{ ('' if loop.first or loop.previtem['role'] == 'system' else '\\n\\n')"
    " + '### Instruction:\\n' + message['content'] + '\\n\\n' }}"
    "{% else %}{{ '### Response:\\n' + message['content'] + (eos_token if eos_token else '') }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}"
)


def with_template(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer with a template that takes a system prompt and can leave reasoning out.

    INSTRUCTION if it had none.
    """
    if not tokenizer.chat_template:
        tokenizer.chat_template = INSTRUCTION
    elif isinstance(tokenizer.chat_template, str) and not takes_system(tokenizer):
        tokenizer.chat_template = BEFORE_QUESTION + tokenizer.chat_template
    if isinstance(tokenizer.chat_template, str) and (thought := _open_thought(tokenizer)):
        own = tokenizer.chat_template.removesuffix("\n")
        tokenizer.chat_template = AS_WRITTEN + own + UNLESS_OPEN.replace("THOUGHT", repr(thought))
    return tokenizer


def _open_thought(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return how a question ends that opens a thought against its orders, empty if none does."""
    question = [{"role": "system", "content": "?"}, {"role": "user", "content": "?"}]
    text = tokenizer.apply_chat_template(
        question, tokenize=False, add_generation_prompt=True, **NO_THOUGHT
    )
    found = OPEN_THOUGHT.search(str(text))
    return found[0] if found else ""


def notes_of(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Return what a record says of the template: a sentence where it is not the model's own."""
    template = str(tokenizer.chat_template)
    if template.startswith(AS_WRITTEN):
        return (
            "the base's chat template opens a thought before every answer; where answers are to come without"
            " reasoning, as from reviewers, in training as in use, it is left out",
        )
    if template.startswith(BEFORE_QUESTION):
        return (
            "the base's chat template has no turn for a system prompt, so it stands before the first"
            " question",
        )
    if template != INSTRUCTION:
        return ()
    return (
        "the base's tokenizer has no chat template, so questions are put as ### Instruction: and ###"
        " Response:, as in the published runs",
    )
