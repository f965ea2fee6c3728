"""How a base is asked whose chat template is missing, or has no turn for a system prompt.

Models that were only pre-trained, such as Mistral-7B-v0.3, have none and are asked as in the published
runs; Gemma 2's refuses a system prompt, which then stands before the first question. What is written
for them is part of the chain like any template: its checksum is stored, and the stage is served with it.
"""

from transformers import PreTrainedTokenizerBase

from training.counting import takes_system

BEFORE_QUESTION = (
    "{% if messages|length > 1 and messages[0]['role'] == 'system' %}"
    "{% set messages = [{'role': messages[1]['role'],"
    " 'content': messages[0]['content'] + '\n\n' + messages[1]['content']}] + messages[2:] %}"
    "{% endif %}"
)
"""Put before a template without a turn for a system prompt."""

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
    """Return the tokenizer with a template that takes a system prompt, INSTRUCTION if it had none."""
    if not tokenizer.chat_template:
        tokenizer.chat_template = INSTRUCTION
    elif isinstance(tokenizer.chat_template, str) and not takes_system(tokenizer):
        tokenizer.chat_template = BEFORE_QUESTION + tokenizer.chat_template
    return tokenizer


def notes_of(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Return what a record says of the template: a sentence where it is not the model's own."""
    template = str(tokenizer.chat_template)
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
