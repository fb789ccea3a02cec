"""From the name of a corpus to its files in a data folder."""

import datetime
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained
from keras_msd.data.corpora.catalogue import Corpus, Portion, RemoteFile, corpus
from keras_msd.data.corpora.convert import CONVERTERS, Rows
from keras_msd.data.corpora.download import Unavailable, fetch, size_of
from keras_msd.files import file_digest, read_json, write_json
from keras_msd.progress import track

ROOM = 3  # bytes of disk for each byte to fetch: the archive, the tables, to spare


def get_corpus(
    name: str,
    languages: Iterable[str] | None = None,
    out: str | Path = "data",
    agree: Callable[[dict[str, Any]], bool] | None = None,
) -> dict[str, Any]:
    """Fetch a corpus from its home, verify it and write our files.

    Downloads stay in `<out>/downloads/<name>/`, where a file put by hand counts like
    one that was fetched; they can be deleted. `<out>/sources/<name>.json` records where
    each came from, its licence and its SHA-256: a later download must match it. What
    the record and the disk agree on is neither fetched nor written again.

    Args:
        name: A corpus of the catalogue.
        languages: Codes beside English; None for all, where the home's are listed.
        out: Data folder: `parallel/`, `sts/`, `tatoeba/` and `bucc2018/` go in there.
        agree: Sees the plan before the download (`title`, `home`, `licence`, `note`,
            `checksums`, and `files` with `name`, `url`, `bytes` or None, `sha256` or
            None, `here`); if it returns False, nothing is done.

    Returns:
        The plan, with `files` as they came, `outputs` (rows by path) and `done`.

    Raises:
        InputError: The name or a language is unknown, a file cannot be had (the
            message gives the steps by hand) or is not what it should be.

    Example:
        >>> from keras_msd.data.corpora import get_corpus
        >>> def agree(plan):  # a download would begin with True
        ...     print(plan["title"], [file["here"] for file in plan["files"]])
        ...     return False
        >>> get_corpus("bucc2018", ["de"], "data", agree)["done"]
        BUCC 2018... [False, False]
        False
    """
    chosen, out = corpus(name), Path(out)
    folder, record_path = out / "downloads" / name, out / "sources" / f"{name}.json"
    about = {key: getattr(chosen, key) for key in ("title", "home", "licence", "note")}
    record = about | {"files": {}, "outputs": {}}
    if record_path.is_file():
        record = read_json(record_path)
    portions = chosen.portions(languages)
    outputs: Rows = {}
    todo = []
    for portion in portions:
        written = _written(portion, record, out)
        outputs |= written
        if not written:
            todo.append(portion)
    files = list(dict.fromkeys(file for portion in todo for file in portion.files))
    plan = _plan(chosen, files, folder)
    if agree is not None and not agree(plan):
        return plan | {"done": False, "outputs": {}}
    _check_room(plan, out)
    for portion in todo:
        came = {
            file.name: _fetch(file, folder, record["files"].get(file.name), record_path)
            for file in portion.files
        }
        paths = [folder / file.name for file in portion.files]
        rows = CONVERTERS[chosen.converter](chosen, portion, paths, out)
        record["files"] |= came  # only now: what cannot be read is no yardstick
        for path, count in rows.items():
            record["outputs"][path] = {
                "digest": file_digest(out / path),
                "from": [file.name for file in portion.files],
                "rows": count,
            }
        outputs |= rows
        write_json(record_path, record)
    got = [{"name": f.name} | record["files"][f.name] for f in files]
    return plan | {"done": True, "files": got, "outputs": outputs}


def _plan(chosen: Corpus, files: list[RemoteFile], folder: Path) -> dict[str, Any]:
    rows = []
    for file in track(files, len(files), "Asking for sizes"):
        path = folder / file.name
        here, size = path.is_file(), file.size
        if here:
            size = path.stat().st_size
        elif size is None:
            with explained(partial(_by_hand, file, folder), Unavailable):
                size = size_of(file.url)
        row = {"name": file.name, "url": file.url, "bytes": size}
        rows.append(row | {"sha256": file.sha256, "here": here})
    keys = ("name", "title", "home", "licence", "note", "checksums")
    return {key: getattr(chosen, key) for key in keys} | {"files": rows}


def _fetch(
    file: RemoteFile, folder: Path, known: dict[str, Any] | None, record_path: Path
) -> dict[str, Any]:
    with explained(partial(_by_hand, file, folder), Unavailable):
        got = fetch(file, folder)
    if known is not None:
        if known["sha256"] == got["sha256"]:
            return known
        raise InputError(
            f"`{folder / file.name}` must have the SHA-256 of the earlier download, "
            f"{known['sha256']}. Received: {got['sha256']}. Its home has changed it, "
            f"or it is damaged. To take it as it is, delete {record_path}."
        )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"url": file.url, "retrieved": today} | got


def _written(portion: Portion, record: dict[str, Any], out: Path) -> Rows:
    """Return the rows of what a portion gave, nothing if any of it is not there."""
    if not portion.code:  # one file of all languages, and others may be wanted now
        return {}
    names = [file.name for file in portion.files]
    entries = {p: e for p, e in record["outputs"].items() if e["from"] == names}
    whole = all(
        (out / path).is_file() and file_digest(out / path) == entry["digest"]
        for path, entry in entries.items()
    )
    return {path: entry["rows"] for path, entry in entries.items()} if whole else {}


def _check_room(plan: dict[str, Any], out: Path) -> None:
    need = ROOM * sum(file["bytes"] or 0 for file in plan["files"] if not file["here"])
    out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out).free
    if need > free:
        raise InputError(
            f"`{out}` needs {need:,} bytes of free disk. Received: {free:,}. Choose "
            "another folder, or take fewer languages at a time."
        )


def _by_hand(file: RemoteFile, folder: Path, error: Exception) -> str:
    return (
        f"{error} By hand: get {file.url} on a machine or network that can, put it at "
        f"{folder / file.name}, and give the same command again."
    )
