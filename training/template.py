"""How a base is asked whose tokenizer brings no chat template: as the published runs asked theirs.

Models that were only pre-trained, such as Mistral-7B-v0.3, have none. What is written for them is part
of the chain like any template: its checksum is stored, and the stage is served with it.
"""

from transformers import PreTrainedTokenizerBase

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
    """Return the tokenizer, given INSTRUCTION if it has no chat template of its own."""
    if not tokenizer.chat_template:
        tokenizer.chat_template = INSTRUCTION
    return tokenizer


def notes_of(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Return what a record says of the template: a sentence where it is not the model's own."""
    if tokenizer.chat_template != INSTRUCTION:
        return ()
    return (
        "the base's tokenizer has no chat template, so questions are put as ### Instruction: and ###"
        " Response:, as in the published runs",
    )
