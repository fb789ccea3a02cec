"""An exported encoder, loaded back in the runtime it was made for."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.export.card import CARD, read_card
from keras_msd.export.formats import EXPORTERS, exporter
from keras_msd.files import digest
from keras_msd.models.unit_rows import unit_rows
from keras_msd.progress import track
from keras_msd.tokenizers.base import checked_texts

Run = Callable[[list[str]], np.ndarray]


class Artefact:
    """Maps sentences to vectors as the exported encoder did.

    Args:
        path: The folder it was loaded from.
        card: What `card.json` says.
        run: The runtime: a list of sentences to float32 `(n, dim)`.
    """

    def __init__(self, path: Path, card: dict[str, Any], run: Run) -> None:
        self.path, self.card, self._run = path, card, run

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        return self.card["dim"]

    @property
    def fingerprint(self) -> str:
        """Hash of the files' checksums."""
        files = sorted(self.card["files"].items())
        return digest(*(f"{name} {facts['sha256']}" for name, facts in files))

    def encode(
        self,
        texts: Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        progress: bool = True,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences; any iterable of any length, empty strings included.
            batch_size: Sentences in one call of the runtime.
            normalize: Scale the vectors to length one, if the model does not.
            progress: Show a bar when it takes longer than a second.

        Returns:
            float32 `(n, dim)`, in the order of `texts`.

        Raises:
            InputError: `texts` is a single string or holds something else than valid
                Unicode, `batch_size` is below 1, or the artefact gives vectors of
                another shape than its card says.
        """
        checks.at_least(1, batch_size=batch_size)
        texts = checked_texts(checks.sentences(texts))
        # Sentences of like length share a batch, so that little padding is computed.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row].encode()))
        vectors = np.zeros((len(texts), self.dim), np.float32)
        starts: Iterable[int] = range(0, len(texts), batch_size)
        if progress:
            starts = track(starts, -(-len(texts) // batch_size), "Encoding")
        for start in starts:
            rows = order[start : start + batch_size]
            made = self._run([texts[row] for row in rows])
            if np.shape(made) != (len(rows), self.dim):
                raise checks.InputError(
                    f"`{self.path}` must give vectors of shape {(len(rows), self.dim)} "
                    f"as its card says. Received: {np.shape(made)}. Export again."
                )
            vectors[rows] = made
        if normalize:
            return unit_rows(vectors)
        return vectors


def load_artefact(path: str | Path, threads: int | None = None) -> Artefact:
    """Load an artefact in the runtime it was made for.

    Every file is compared with its checksum before the runtime sees it. A checksum
    tells damage from what was exported; it does not make a stranger's file safe.

    Args:
        path: The artefact's folder, or the model file in it (`model.tflite`,
            `model.onnx`, `1/saved_model.pb`).
        threads: How many threads the runtime may use; by default its own choice.

    Raises:
        InputError: No artefact is there, it has no card, it is damaged, its format is
            unknown, or the format's package is not installed.
    """
    folder = artefact_folder(path)
    card = read_card(folder)
    _check_part(Path(path), folder, card)
    checks.one_of(EXPORTERS, format=card["format"])
    if threads is not None:
        checks.at_least(1, threads=threads)
    run = exporter(card["format"]).load(folder, threads=threads)
    return Artefact(folder, card, run)


def artefact_folder(path: str | Path) -> Path:
    """Return the folder with the card that `path`, itself or a file in it, belongs to.

    Raises:
        InputError: Nothing is there, or it has no card.
    """
    path = Path(path)
    if not path.exists():
        raise checks.InputError(
            f"The artefact `{path}` does not exist. Give its folder or its model file."
        )
    # `1/saved_model.pb` lies one folder deeper than `model.tflite`.
    nearest = [path, path.parent, path.parent.parent]
    for folder in nearest if path.is_dir() else nearest[1:]:
        if (folder / CARD).is_file():
            return folder
    raise checks.InputError(
        f"`{path}` has no {CARD}, which says what an artefact is and holds its "
        "checksums. Copy the whole folder that `export` wrote; an encoder that is no "
        "artefact is given by its folder."
    )


def _check_part(path: Path, folder: Path, card: Mapping[str, Any]) -> None:
    inside = path.relative_to(folder).as_posix()
    if path != folder and not any(
        f"{name}/".startswith(f"{inside}/") for name in card["files"]
    ):
        raise checks.InputError(
            f"`{path}` is no part of the artefact `{folder}`, whose {CARD} lists "
            f"{', '.join(sorted(card['files']))}. Give the folder."
        )
