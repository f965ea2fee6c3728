"""A model's own tokenizer as `evals.reviewing` counts with it. Knows nothing of torch.

Some templates have no turn for a system prompt and refuse one; what it says then stands before the
question, in training, counting and asking alike.
"""

from collections.abc import Mapping, Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig

Messages = Sequence[Mapping[str, str]]


class ChatCounter:
    """Counts tokens of texts and conversations for the base called `name`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        if not tokenizer.is_fast:
            raise BadConfig(
                f"{name} has a slow tokenizer, which cannot tell where tokens end; use a base that comes with a"
                " tokenizer.json."
            )
        self.tokenizer = tokenizer
        self.name = name
        self.takes_system = takes_system(tokenizer)

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token ends, in characters from the start of the text."""
        if not text:
            return ()
        read = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [end for _, end in read["offset_mapping"]]

    def chat(self, messages: Messages) -> int:
        """Return the tokens of a conversation as the template writes it."""
        fitting = messages if self.takes_system else without_system(messages)
        text = self.tokenizer.apply_chat_template([dict(each) for each in fitting], tokenize=False)
        return len(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def takes_system(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a chat template has a turn for a system prompt, tried on it."""
    mark = "zq-system-zq"
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "system", "content": mark}, {"role": "user", "content": "?"}], tokenize=False
        )
    except TemplateError:
        return False
    return mark in str(text)


def without_system(messages: Messages) -> list[dict[str, str]]:
    """Return messages with the system prompt put before the first question."""
    system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    rest = [dict(each) for each in messages if each["role"] != "system"]
    if system and rest:
        rest[0]["content"] = f"{system}\n\n{rest[0]['content']}"
    return rest
