"""Which rows make which batch: an endless stream of batches, each with a number."""

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.order import EpochOrder, mix, permutation
from keras_msd.data.pair_table import PairTable

WINDOW_BATCHES = 64  # sorted by length together: more saves little padding
WINDOW_PAIRS = 8192  # the same where a token budget decides on the batches


class BatchStream:
    """Batch `position` of training, for any position, from the seed alone.

    The draws of an epoch are cut into windows; a window's pairs are sorted by length
    and cut into batches, and the batches are shuffled. So a batch has little padding,
    and the windows and batches come in random order.

    Args:
        table: Gives the lengths.
        batch_size: Pairs in a batch, unless there is a token budget.
        token_budget: Most tokens of a batch, padding and both sides included.
        seed: Chooses the order.
        temperature: See `order.file_shares`.
        drop_remainder: Leave out the last, smaller batch of an epoch.
        multiple: Padded lengths are multiples of this.

    Raises:
        InputError: A number is out of range, or there are fewer pairs than a batch
            needs.
    """

    def __init__(
        self,
        table: PairTable,
        batch_size: int = 64,
        token_budget: int | None = None,
        seed: int = 0,
        temperature: float = float("inf"),
        drop_remainder: bool = True,
        multiple: int = 8,
    ) -> None:
        checks.at_least(1, batch_size=batch_size, multiple=multiple)
        if token_budget is not None:
            # The longest pair must fit.
            longest = -(-table.max_length // multiple) * multiple
            checks.at_least(2 * longest, token_budget=token_budget)
        sizes = [file.stop - file.start for file in table.files]
        self.order = EpochOrder(sizes, seed, temperature)
        self.table, self.seed, self.multiple = table, seed, multiple
        self.batch_size, self.token_budget = batch_size, token_budget
        self.draws = len(table)
        if token_budget is None and drop_remainder:
            self.draws -= self.draws % batch_size
            if self.draws == 0:
                raise InputError(
                    "`batch_size` must be at most the number of pairs. Received: "
                    f"batch_size={batch_size}, {len(table)} pairs. Choose a smaller "
                    "one, or set drop_remainder=False."
                )
        pairs = WINDOW_BATCHES * batch_size
        self.window_pairs = pairs if token_budget is None else WINDOW_PAIRS
        self.windows = -(-self.draws // self.window_pairs)
        self._recent: dict[tuple[int, int], list[np.ndarray]] = {}
        self._edges: dict[int, np.ndarray] = {}
        self._epoch_starts = [0]

    def steps(self, epochs: int) -> int:
        """Return how many batches the first `epochs` epochs have."""
        if self.token_budget is None:
            return epochs * -(-self.draws // self.batch_size)
        while len(self._epoch_starts) <= epochs:
            epoch = len(self._epoch_starts) - 1
            last = self._window_edges(epoch)[-1]
            self._epoch_starts.append(self._epoch_starts[-1] + int(last))
        return self._epoch_starts[epochs]

    def rows(self, position: int) -> np.ndarray:
        """Return the table rows of batch `position`, int64 `(n,)`."""
        if self.token_budget is None:
            epoch, index = divmod(position, self.steps(1))
            window, index = divmod(index, WINDOW_BATCHES)
        else:
            while self.steps(len(self._epoch_starts) - 1) <= position:
                self.steps(len(self._epoch_starts))
            epoch = int(np.searchsorted(self._epoch_starts, position, "right")) - 1
            index = position - self._epoch_starts[epoch]
            edges = self._window_edges(epoch)
            window = int(np.searchsorted(edges, index, "right")) - 1
            index -= int(edges[window])
        key = (epoch, window)
        batches = self._recent.get(key)
        if batches is None:
            batches = self._window(epoch, window)
            # Two threads may both do so at the border of two windows: no harm.
            self._recent = {key: batches} | dict(list(self._recent.items())[:1])
        return batches[index]

    def _window_edges(self, epoch: int) -> np.ndarray:
        """Return the first batch of every window of an epoch, and the end."""
        edges = self._edges.get(epoch)
        if edges is None:
            counts = [len(self._window(epoch, one)) for one in range(self.windows)]
            edges = np.cumsum([0, *counts])
            self._edges = {epoch: edges} | dict(list(self._edges.items())[:1])
        return edges

    def _window(self, epoch: int, window: int) -> list[np.ndarray]:
        start = window * self.window_pairs
        rows = self.order.rows(epoch, start, min(start + self.window_pairs, self.draws))
        source, target = (
            -(-self.table.lengths(side, rows) // self.multiple) * self.multiple
            for side in ("source", "target")
        )
        # Up and down by turns, so that target lengths do not jump where the source
        # gets longer and a batch lies across the border.
        turn = np.where(source // self.multiple % 2, target, -target)
        order = np.lexsort((turn, source))
        rows, source, target = rows[order], source[order], target[order]
        if self.token_budget is None:
            cuts = list(range(self.batch_size, len(rows), self.batch_size))
        else:
            cuts = _budget_cuts(source, target, self.token_budget)
        batches = np.split(rows, cuts)
        count = len(batches)
        seed = mix(self.seed, 3, epoch, window)
        return [batches[i] for i in permutation(np.arange(count), count, seed)]


def _budget_cuts(source: np.ndarray, target: np.ndarray, budget: int) -> list[int]:
    """Return where new batches begin, so that none has more than `budget` tokens."""
    cuts: list[int] = []
    start = longest_source = longest_target = 0
    for place, lengths in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        longest_source = max(longest_source, lengths[0])
        longest_target = max(longest_target, lengths[1])
        if (place + 1 - start) * (longest_source + longest_target) > budget:
            cuts.append(place)
            start = place
            longest_source, longest_target = lengths
    return cuts
