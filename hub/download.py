"""One file of a repository, at a commit."""

from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from hub.client import explained
from hub.publish import TROUBLE


def download(
    api: HfApi, repo: str, revision: str, name: str, repo_type: str = "model"
) -> Path | None:
    """Return where a file lies once it is here; None if the commit holds none of that name.

    HubTrouble if it cannot be had.
    """
    try:
        return Path(
            hf_hub_download(
                repo, name, repo_type=repo_type, revision=revision, endpoint=api.endpoint
            )
        )
    except EntryNotFoundError:
        return None
    except TROUBLE as error:
        raise explained(error, f"cannot download {name} of {repo}") from error
