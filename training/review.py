"""Fine-tuning of a reviewer: the base learns to answer a paper with the concerns that people had.

    accelerate launch -m training.review --config training/configs/embedded/review.yaml

Supervised fine-tuning as in `training.sft`, on chat rows. The loss is on the reply alone, which is
checked for every row; no row is ever cut. The instructions of the rows become the system prompt of the
chain, so that an adapter is asked with the words it was trained with.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from training.sft import SftSettings, build_trainer

if TYPE_CHECKING:
    from training.data.tokens import Rows
    from training.run.session import Prepared


class ReviewSettings(SftSettings):
    """Settings of fine-tuning a reviewer; `data` are files of chat rows (`assay data review --corpus`)."""

    about = "Fine-tune a reviewer on papers and what people objected to."
    example = "--config training/configs/embedded/review.yaml --output runs/review/mine --dry-run"

    max_length: int = Field(16_384, ge=16, description="longest paper plus reply, tokens")
    eval_tokens: int = Field(1024, ge=1, description="longest review of a dev paper, tokens")

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return papers with what people objected to."""
        from training.data.dev import papers, with_dev, with_held_out
        from training.data.reviews import check_chain_prompt, read_reviews

        data = self.mix_sources(lambda sources: read_reviews(sources, drops=self.bad_rows == "drop"))
        check_chain_prompt(data, chain_prompt)
        if not self.eval_steps:
            return data
        data = with_held_out(data, self.hold_out, self.seed)
        return with_dev(data, self, papers(data, self) if self.eval_data or not data.held else None)


def train(ready: "Prepared[ReviewSettings]") -> None:
    """Train an adapter and leave it, with its chain, its instructions and its records, in the run folder."""
    from training.data.reviews import check_replies

    check_replies(ready.data, ready.tokenizer, ready.base.public_name)
    with ready.session() as current:
        current.train(build_trainer(ready))


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("review", ReviewSettings, train)
