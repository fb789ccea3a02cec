"""Where the parts of a published SavedModel lie in a folder, and a hash of them."""

from pathlib import Path
from typing import NamedTuple

from keras_msd.files import digest, file_digest

MODEL = "saved_model.pb"
# What decides a model's vectors; metadata beside it does not.
PARTS = (MODEL, "variables", "assets")
# With one of these, a folder is an encoder or an artefact, whatever else it holds.
KNOWN = ("encoder.json", "card.json", "modules.json", "config.json")


class SavedModelFolder(NamedTuple):
    """A SavedModel that gives vectors, and the one that prepares its inputs, if any."""

    encoder: Path
    preprocessor: Path | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of graph, variables and assets; it does not follow the folder's name."""
        parts = ["saved_model"]
        for role, folder in self._asdict().items():
            if folder is None:
                continue
            files = [path for name in PARTS for path in _files(folder / name)]
            for path in files:
                place = path.relative_to(folder).as_posix()
                parts += [f"{role}/{place}", file_digest(path)]
        return digest(*parts)


def published_saved_model(folder: Path) -> SavedModelFolder | None:
    """Return the SavedModel that a folder is, None if it is of another kind."""
    places = [folder / file for file in KNOWN] + [folder.parent / "card.json"]
    known = any(place.is_file() for place in places)
    return None if known else find_saved_model(folder)


def find_saved_model(folder: Path) -> SavedModelFolder | None:
    """Return the SavedModel in a folder, or None if there is none.

    It lies in the folder itself, or in the subfolder of a version, of which the highest
    counts; or there are two in subfolders `preprocessor` and `encoder`.
    """
    if model := _model_folder(folder):
        return SavedModelFolder(model)
    if encoder := _model_folder(folder / "encoder"):
        return SavedModelFolder(encoder, _model_folder(folder / "preprocessor"))
    return None


def _model_folder(folder: Path) -> Path | None:
    if (folder / MODEL).is_file():
        return folder
    versions = [path.parent for path in folder.glob(f"*/{MODEL}")]
    versions = [path for path in versions if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


def _files(path: Path) -> list[Path]:
    return (
        [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    )
