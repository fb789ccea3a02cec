"""Steps that several runs have in common are done once and found by what made them."""

import os
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import atomic_path, file_digest, remove, write_json
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.run_folder import DONE
from keras_msd.recipes.steps.keys import step_key
from keras_msd.recipes.steps.plan import Step, perform
from keras_msd.seals import read_sealed, sealed

ENTRY, FILES = "entry.json", "files"


class SharedSteps:
    """Does the steps of a run, or takes them from a folder where runs leave theirs.

    A step is found by its key, a hash of everything that its result depends on. Its
    files are hard links, copies where links are impossible, and are compared with the
    hashes that they were stored with: a file that was written to is not taken.

    Args:
        run: The run.
        folder: Holds one folder a key.
    """

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self._keys: dict[str, str | None] = {}

    def perform(self, step: Step) -> dict[str, Any]:
        """Do a step unless it is done, here or elsewhere; return its record."""
        record = self.run.folder.done(step.name)
        if record is not None:
            # What later steps rest on is what was done, whatever would be done now.
            self._keys[step.name] = record.get("key")
            return record
        key = self._keys[step.name] = step_key(self.run, step, self._keys)
        if key is None:
            return perform(self.run, step)
        return self._taken(step, key) or self._done(step, key)

    def _taken(self, step: Step, key: str) -> dict[str, Any] | None:
        stored = self.folder / key
        if not (stored / ENTRY).is_file():
            return None
        entry = read_sealed(stored / ENTRY, key)
        if entry is None or _digests(stored / FILES) != entry["files"]:
            remove(stored)
            return None

        def link(folder: Path) -> dict[str, Any]:
            _link_files(stored / FILES, folder, dirs_exist_ok=True)
            return entry["result"]

        marks = {"key": key, "reused": entry["seconds"]}
        return self.run.folder.perform(step.name, link, marks)

    def _done(self, step: Step, key: str) -> dict[str, Any]:
        record = perform(self.run, step, {"key": key})
        try:
            with atomic_path(self.folder / key) as temporary:
                files = temporary / FILES
                ignore = shutil.ignore_patterns(DONE)
                _link_files(self.run.folder.step(step.name), files, ignore=ignore)
                entry = {name: record[name] for name in ("result", "seconds")}
                entry |= {"step": step.name, "files": _digests(files)}
                write_json(temporary / ENTRY, sealed(entry, key))
        except (OSError, InputError) as error:  # such as a full disk
            # Another process may have stored the same step in this moment.
            if not (self.folder / key / ENTRY).is_file():
                warnings.warn(
                    f"The step `{step.name}` is done, but cannot be shared with other "
                    f"runs: {error}",
                    stacklevel=2,
                )
        return record


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


_link_files = partial(shutil.copytree, copy_function=_link)


def _digests(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in paths}
