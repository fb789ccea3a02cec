"""Steps that runs leave for each other, under a hash of what they were made from."""

import os
import shutil
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.io.files import (
    add_seal,
    atomic_path,
    changed_files,
    checksums,
    read_checked,
    remove,
    write_json,
)

DONE = "done.json"  # of the run that did the step
ENTRY, FILES = "entry.json", "files"
REUSED = "reused"  # in a result: seconds that the step took in another run


class SharedStep:
    """A step in the shared folder, if one is there.

    Its files are hard links, or copies where links are impossible, and are compared
    with their checksums.

    Args:
        path: Its folder, whose name is the step's key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self, target: Path) -> dict[str, Any] | None:
        """Put its files into a folder and return its result; None if it is not there.

        A damaged one is removed.
        """
        entry = read_checked(self.path / ENTRY, self.path.name)
        if entry and not changed_files(self.path / FILES, entry["files"]):
            _link_files(self.path / FILES, target, dirs_exist_ok=True)
            return entry["result"] | {REUSED: entry["seconds"]}
        remove(self.path)
        return None

    def leave(self, name: str, folder: Path, record: Mapping[str, Any]) -> None:
        """Store a step, unless it is there.

        Args:
            name: The step.
            folder: Its files.
            record: Its record.
        """
        if (self.path / ENTRY).is_file():
            return
        try:
            with atomic_path(self.path) as temporary:
                files, ignore = temporary / FILES, shutil.ignore_patterns(DONE)
                _link_files(folder, files, ignore=ignore)
                entry = {it: record[it] for it in ("result", "seconds")}
                entry |= {"step": name, "files": checksums(files)}
                write_json(temporary / ENTRY, add_seal(entry, self.path.name))
        except (OSError, InputError) as error:  # such as a full disk
            if (self.path / ENTRY).is_file():
                return  # another process has stored the same step in this moment
            warnings.warn(
                f"The step `{name}` is done, but cannot be shared with other runs: "
                f"{error}",
                stacklevel=3,
            )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


_link_files = partial(shutil.copytree, copy_function=_link)
