"""SQLite index from a sentence's hash to its row in a store."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from keras_msd.checks import InputError

INDEX = "index.sqlite"
BROKEN = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR
CACHE_KIB = 8192  # memory of the index
WAIT_S = 600  # for another process that is writing
ASKED = 500  # keys in a query; SQLite takes at least 999


class BrokenIndexError(InputError):
    """The index is not a database or belongs to another store."""


@contextmanager
def open_index(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the index of a store, and close it.

    Raises:
        BrokenIndexError: It is damaged, also where the block inside meets the damage.
        OSError: It could not be read or written.
    """
    path = folder / INDEX
    try:
        connect = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        with closing(connect) as index:
            index.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            yield index
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite's own words quote names from the file, which need not be UTF-8.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) or 0
        if code & 0xFF in BROKEN:
            message = f"`{path}` is damaged: {error}. Run again: it is made again."
            raise BrokenIndexError(message) from error
        raise OSError(
            f"`{path}` could not be read or written: {error}. Free space on its disk "
            "if it is full; what was computed before stays."
        ) from error


def begin_index(index: sqlite3.Connection, owner: str) -> None:
    """Create missing tables.

    Raises:
        BrokenIndexError: They are of another store.
    """
    index.execute(
        "CREATE TABLE IF NOT EXISTS keys "
        "(key BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID"
    )
    for table, column, value in (("total", "count", 0), ("owner", "id", owner)):
        index.execute(f"CREATE TABLE IF NOT EXISTS {table} ({column} NOT NULL)")
        once = f"SELECT ? WHERE NOT EXISTS (SELECT * FROM {table})"
        index.execute(f"INSERT INTO {table} {once}", (value,))
    if index.execute("SELECT id FROM owner").fetchone() != (owner,):
        raise BrokenIndexError("it is of another store")


def index_count(index: sqlite3.Connection) -> int:
    """Return how many rows the index knows.

    Raises:
        BrokenIndexError: What stands there is no number of rows.
    """
    row = index.execute("SELECT count FROM total").fetchone()
    if row is None or not isinstance(row[0], int) or row[0] < 0:
        raise BrokenIndexError(f"its number of rows is {row!r:.80}")
    return row[0]


def index_places(index: sqlite3.Connection, keys: list[bytes]) -> dict[bytes, int]:
    """Return the row of every key that is in the index."""
    places: dict[bytes, int] = {}
    keys = sorted(set(keys))
    for start in range(0, len(keys), ASKED):
        asked = keys[start : start + ASKED]
        marks = ",".join("?" * len(asked))
        query = f"SELECT key, place FROM keys WHERE key IN ({marks})"
        places.update(index.execute(query, asked))
    return places
