"""Checkpoints of a running stage, kept in a private repository: a run whose machine is lost goes on from there.

    hf download ORG/NAME --local-dir RUN     then the same `assay train` command

The repository is a run folder with its newest whole checkpoint; what was there before goes in the same commit.
"""

import os
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import HfApi

from evals.errors import LabError
from hub.client import check_repo, explained, wording
from hub.publish import TROUBLE, Say

SEAL = "seal.json"
"""Written into a checkpoint when all of it is on the disk (training.run.checkpoints)."""
BESIDE = ("run.json", "metrics.jsonl")


class CheckpointCopies:
    """Sends each checkpoint of a run to a repository once; LabError for one that is public or cannot be written to."""

    def __init__(self, api: HfApi, repo: str, run: Path, say: Say) -> None:
        self.api, self.repo, self.run, self.say = api, check_repo(repo), run, say
        self.sent = ""
        try:
            api.create_repo(repo, private=True, exist_ok=True)
            is_private = api.model_info(repo).private
        except TROUBLE as error:
            raise explained(error, f"cannot keep checkpoints in {repo}") from error
        if not is_private:
            raise LabError(wording("public checkpoints", repo=repo))

    def look(self) -> None:
        """Send the newest checkpoint if it is new; one that cannot be sent is told of and tried again at the next look."""
        whole = [seal.parent for seal in self.run.glob(f"checkpoint-*/{SEAL}")]
        newest = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
        if newest is None or newest.name == self.sent:
            return
        try:
            with tempfile.TemporaryDirectory(dir=self.run.parent, prefix=f".{self.run.name}-") as place:
                shutil.copytree(newest, Path(place) / newest.name, copy_function=os.link)  # training may remove its own
                for file in (*(self.run / name for name in BESIDE), *self.run.glob("best-*.safetensors")):
                    shutil.copy(file, place)
                self.api.upload_folder(
                    repo_id=self.repo,
                    folder_path=place,
                    commit_message=f"{self.run.name}, {newest.name}",
                    delete_patterns=["checkpoint-*", "best-*"],
                )
        except TROUBLE as error:
            self.say(f"{explained(error, f'{newest.name} is not on the Hub yet')}")
            return
        self.sent = newest.name
        self.say(f"{newest.name} is on the Hub: hf download {self.repo} --local-dir {self.run.name} brings it back")
