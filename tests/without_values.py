"""Networks of the papers' sizes, without their gigabytes."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras


@contextmanager
def without_values() -> Iterator[None]:
    """Let Keras build layers and weights of full shape, but no values.

    Keras notes such weights down and gives them values at the end of any later
    `StatelessScope`, an export's for example, unless its session is cleared.
    """
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        keras.utils.clear_session()
