"""A development set taken out of a corpus, the same one every time."""

import hashlib
import heapq
import re
from collections.abc import Iterator

from keras_msd import checks

ONE_IN = 200
LARGEST = 1000
NOT_WORDS = re.compile(r"[\W_]+")

Row = tuple[str, str]


class DevSplit:
    """Sends each pair to training, or holds it out for development.

    What decides is a hash of the English sentence without case, punctuation and
    spaces. So the same sentence is held out of every corpus and language that is split
    like this, and the order of the rows does not count. Of those held out, the `size`
    with the smallest hashes are the development set, each English sentence once; the
    rest is left out. Memory holds `size` pairs.

    Args:
        size: Most pairs of the development set.
        one_in: Of so many English sentences, one is held out.
    """

    def __init__(self, size: int = LARGEST, one_in: int = ONE_IN) -> None:
        checks.at_least(1, size=size, one_in=one_in)
        self.size = size
        self.bound = 2**64 // one_in
        self.kept: dict[int, Row] = {}
        self._largest_first: list[int] = []
        self.held_out = 0

    def holds_out(self, source: str, target: str) -> bool:
        """Return whether a pair is not for training, and remember it if needed."""
        number = _hash(source)
        if number >= self.bound:
            return False
        self.held_out += 1
        if number not in self.kept:
            self.kept[number] = (source, target)
            heapq.heappush(self._largest_first, -number)
            if len(self.kept) > self.size:
                del self.kept[-heapq.heappop(self._largest_first)]
        return True

    def rows(self) -> Iterator[Row]:
        """Yield the development set, in the order of the hashes."""
        for number in sorted(self.kept):
            yield self.kept[number]


def _hash(source: str) -> int:
    key = NOT_WORDS.sub("", source.casefold())
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
