"""What batches are made of: the table of a corpus, and where its targets stand."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.data.collect import SIDES
from keras_msd.data.pair import Pair, Pairs
from keras_msd.data.pair_table import PairTable, table_key
from keras_msd.data.ragged import read_flat
from keras_msd.data.store import GuideStore
from keras_msd.data.text_table import TextTable
from keras_msd.files import atomic_path, digest

Corpus = Pairs | PairTable | TextTable | Iterable[Pair]


def table_for(
    pairs: Corpus, encoder: Any, max_length: int | None, folder: str | Path | None
) -> PairTable:
    """Return the table of a corpus for an encoder's tokenizer.

    Args:
        pairs: A corpus, a list of pairs, or a table.
        encoder: Has the `tokenizer` and the `max_length`.
        max_length: Most tokens of a text; the encoder's by default.
        folder: Where tables are kept, each under a name made from its content.

    Raises:
        InputError: As `PairTable.build`; or the table given does not fit the encoder.
    """
    tokenizer = encoder.tokenizer
    longest = max_length or encoder.max_length
    if longest > encoder.max_length:
        raise InputError(
            "`max_length` must be at most the encoder's. Received: "
            f"max_length={longest}, encoder {encoder.max_length}."
        )
    if isinstance(pairs, PairTable):
        if pairs.tokenizer_fingerprint != tokenizer.fingerprint:
            raise InputError(
                f"The table in `{pairs.folder}` holds token ids of another tokenizer "
                "than the encoder's. Build it with `encoder.tokenizer`."
            )
        if pairs.max_length > longest or (max_length or pairs.max_length) != (
            pairs.max_length
        ):
            raise InputError(
                f"The table in `{pairs.folder}` must be cut at {longest} tokens. "
                f"Received: max_length={pairs.max_length}. Build it with "
                f"max_length={longest}."
            )
        return pairs
    folder = Path(folder or ".")
    if not isinstance(pairs, Pairs | TextTable):
        pairs = Pairs.from_list(pairs)
    if isinstance(pairs, Pairs):
        pairs = TextTable.build(pairs, folder / f"texts-{pairs.digest()[:16]}")
    key = table_key(pairs, tokenizer, longest)
    return PairTable.build(
        pairs, tokenizer, folder / f"tokens-{key[:16]}", max_length=longest
    )


def checked_guide(name: str, guide: Any) -> tuple[GuideStore, str]:
    """Return `guide`; raise `InputError` unless it is (store, side)."""
    if not (
        isinstance(guide, tuple)
        and len(guide) == 2
        and isinstance(guide[0], GuideStore)
        and guide[1] in SIDES
    ):
        raise InputError(
            'A guide must be (store, "source") or (store, "target"). Received: '
            f"{name}={guide!r:.120}. Make the store with `GuideStore(guide, folder)`."
        )
    return guide


def guide_rows(table: PairTable, store: GuideStore, side: str) -> np.ndarray:
    """Return the store's row of every pair, int64 `(n,)`, read from disk.

    Vectors that are missing are computed first. The row numbers are kept beside the
    table and belong to the store's id: a store keeps them as long as it lives.
    """
    path = table.folder / "rows" / f"{digest(store.id, side)}.i64"
    if not path.exists():
        texts = (text for chunk in table.texts.chunks(side) for text in chunk)
        store.build(texts, total=len(table))
        with atomic_path(path) as temporary, open(temporary, "wb") as handle:
            for chunk in table.texts.chunks(side):
                handle.write(store.rows(chunk).tobytes())
    return read_flat(path, np.int64)
