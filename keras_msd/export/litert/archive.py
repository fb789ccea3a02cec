"""Files that travel inside a .tflite file, and the seal that shows its damage.

TFLite's associated files are a zip archive behind the model; runtimes skip it. One
entry is the model's own SHA-256: runtimes in C++ trust the offsets that a model holds,
and a damaged one can end the process.
"""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from keras_msd.checks import InputError, existing_file

SEAL = "model.sha256"
IDENTIFIER = b"TFL3"
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written
UNIX = 3


def with_files(model: bytes, files: Mapping[str, bytes] | None = None) -> bytes:
    """Return `model` followed by an archive of `files` and its seal, uncompressed."""
    content = io.BytesIO(model)
    seal = hashlib.sha256(model).hexdigest().encode()
    with zipfile.ZipFile(content, "a") as archive:
        for name, data in {**(files or {}), SEAL: seal}.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = UNIX
            archive.writestr(entry, data)
    return content.getvalue()


def read_files(path: str | Path) -> tuple[bytes, dict[str, bytes]]:
    """Return the model in a .tflite file and the files behind it, once it is whole.

    Raises:
        InputError: There is no such file, it is no .tflite file or none of ours, or
            not a byte-for-byte copy of what was written.
    """
    path = existing_file(path, "model")
    content = path.read_bytes()
    if content[4:8] != IDENTIFIER:
        raise InputError(
            f"`{path}` must be a .tflite file. Received: {len(content)} bytes that "
            f"start with {content[:8]!r}. Export the encoder again."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("its files are compressed")
            files = {entry.filename: archive.read(entry) for entry in entries}
            start = min(entry.header_offset for entry in entries)
        seal = files.pop(SEAL)
    # A damaged archive makes zipfile raise nearly anything.
    except Exception as error:
        raise InputError(
            f"`{path}` has no readable seal behind the model ({error!r}): it is cut "
            "short, damaged, or was not exported by keras_msd. Take a whole copy."
        ) from error
    model = content[:start]
    if hashlib.sha256(model).hexdigest().encode() != seal:
        raise InputError(
            f"`{path}` differs from its own checksum. Take a whole copy, or export "
            "the encoder again."
        )
    return model, files
