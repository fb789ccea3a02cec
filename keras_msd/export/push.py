"""The upload of an artefact to the hub, without Keras."""

from pathlib import Path

from keras_msd.checks import InputError, explained, require
from keras_msd.export.card import CARD, TEXT, read_card
from keras_msd.io.remote import HUB_NAME


def push_to_hub(folder: str | Path, repo: str, *, private: bool = False) -> str:
    """Upload an artefact's files to a repository of the Hugging Face hub.

    The files are compared with the card first, and only those that it lists are sent.
    Who sends is who `hf auth login` or HF_TOKEN says; HF_ENDPOINT names another hub.

    Args:
        folder: An artefact, as a rule of the format `huggingface`, which all that reads
            from the hub can load.
        repo: "organisation/model"; made if there is none.
        private: Whether a repository that is made is seen by its owners alone.

    Returns:
        The address of the commit.

    Raises:
        InputError: `folder` is no whole artefact, `repo` is no such name,
            `huggingface_hub` is not installed, or the hub cannot be reached or refuses.

    Example:
        >>> try:  # a name without its organisation
        ...     msd.export.push_to_hub("artefacts/student", "student")
        ... except msd.InputError as error:
        ...     print(str(error).split(".")[0])
        `repo` must read organisation/model
    """
    if not HUB_NAME.fullmatch(repo):
        raise InputError(
            f"`repo` must read organisation/model. Received: {repo!r}. Give the name "
            "of the repository without its address."
        )
    card = read_card(folder)
    hub = require("huggingface_hub", "hf", "Sending files to the hub")

    def unsent(error: Exception) -> str:
        return (
            f"`{folder}` could not be sent to {repo!r} ({type(error).__name__}: "
            f"{error}). Log in with `hf auth login`, and check the name, your rights "
            "and the network."
        )

    # The client's errors share no base class across its versions and its transports.
    with explained(unsent, Exception):
        api = hub.HfApi()
        api.create_repo(repo, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message="Add a sentence encoder",
            allow_patterns=[*card["files"], CARD, TEXT],
        )
    return str(commit.commit_url)
