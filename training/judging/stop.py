"""When a judge fails too often to learn from: better no training than training on noise."""

from evals.errors import TrainingStopped


class StopRule:
    """Raises once too large a share of answers had no verdict, `patience` batches in a row."""

    def __init__(self, max_missing_share: float = 0.25, patience: int = 1) -> None:
        self.max_missing_share = max_missing_share
        self.patience = patience
        self._in_a_row = 0

    def saw(self, missing: int, judged: int, problems: tuple[str, ...] = ()) -> None:
        """Take note of a batch; TrainingStopped if it was one too many."""
        if not judged or missing / judged <= self.max_missing_share:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row < self.patience:
            return
        seen = f" It said: {'; '.join(problems[:3])}." if problems else ""
        raise TrainingStopped(
            f"the judge gave no verdict on {missing} of {judged} answers, in {self._in_a_row} batches in a"
            f" row (allowed: {self.max_missing_share:.0%} of a batch).{seen} Look at its server, then give"
            " the same command again to go on from the last checkpoint."
        )
