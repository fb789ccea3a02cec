"""Upload to the Hugging Face hub, and the README header that it reads."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained, require
from keras_msd.export.card import CARD, TEXT, read_card, score_title
from keras_msd.export.proof import EXAMPLE_SET, UNNAMED_SET

NAME = r"\w[\w.-]*/\w[\w.-]*"


def header(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield the YAML header of a README: what the hub lists a model by.

    Every value is written as JSON, which is YAML too. Scores are those of the card,
    unless they are of the example sentences or of rows without a name.

    Args:
        card: What `card.json` holds.
    """
    licence = card.get("license")
    fields: dict[str, Any] = {
        "language": card["languages"],
        **({"license": licence.lower()} if licence else {}),
        "base_model": card.get("base_model"),
        "datasets": card.get("datasets"),
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "keras-msd"],
    }
    if licence and not re.fullmatch(r"[\w.-]+", licence):
        fields |= {"license": "other", "license_name": licence}
    sts = card["parity"]["sts"]
    if sts["set"] not in (EXAMPLE_SET, UNNAMED_SET):
        metrics = [
            {"type": "spearman", "name": score_title(name), "value": round(value, 4)}
            for name, value in sts["after"].items()
        ]
        slug = re.sub(r"\W+", "-", sts["set"]).strip("-").lower()
        result = {
            "task": {"type": "sentence-similarity", "name": "Sentence similarity"},
            "dataset": {"type": slug, "name": sts["set"]},
            "metrics": metrics,
        }
        fields["model-index"] = [{"name": "Sentence encoder", "results": [result]}]
    yield "---"
    for key, value in fields.items():
        if value:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"
    yield from ("---", "")


def push_to_hub(
    folder: str | Path,
    repo: str,
    *,
    private: bool = False,
    message: str = "Add a sentence encoder",
) -> str:
    """Upload an artefact's files to a repository of the Hugging Face hub.

    The files are compared with the card first, and only those that it lists are sent.
    Who sends is who `hf auth login` or HF_TOKEN says; HF_ENDPOINT names another hub.

    Args:
        folder: An artefact, as a rule of the format `huggingface`, which all that reads
            from the hub can load.
        repo: "organisation/model"; made if there is none.
        private: Whether a repository that is made is seen by its owners alone.
        message: Title of the commit.

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
    if not re.fullmatch(NAME, repo):
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
            commit_message=message,
            allow_patterns=[*card["files"], CARD, TEXT],
        )
    return str(commit.commit_url)
