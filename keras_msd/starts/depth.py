"""Structured pruning: which layers a shallower student keeps."""

from collections.abc import Iterable

import numpy as np
from keras import ops

from keras_msd.checks import InputError, at_least
from keras_msd.models.encoder import Encoder
from keras_msd.progress import track
from keras_msd.starts.width import embedded_tokens, passed, some_texts, with_layers


def choose_layers(encoder: Encoder, texts: Iterable[str], count: int) -> list[int]:
    """Choose the layers that a shallower student keeps, by what their absence costs.

    One layer is removed after the other: each time the one without which the encoder's
    embeddings of `texts` change least. The change is `sum ||(v - m) - (w - n)||^2 / sum
    ||w - n||^2`, with the embeddings w of the whole encoder, those v of the encoder
    without some layers, and the means n and m of both.

    Of 12 layers and 500 sentences, half of the layers take some minutes on one core.

    Args:
        encoder: An encoder with layers and `repeats=1`; it is not changed.
        texts: Some hundred sentences like those that will be encoded, with the prompt
            if there is one; two different ones or more.
        count: How many layers to keep.

    Returns:
        The numbers of the layers, in their order, for `build_student(unit_from=...)`.

    Raises:
        InputError: `encoder` has no layers, repeats them or is an artefact; `count` is
            not between 1 and its layers; or there are no two texts that differ.

    Source: ours; greedy removal of layers by their effect on the output.

    Example:
        >>> encoder = msd.testing.tiny_encoder(num_layers=3)
        >>> texts = ["The cat sleeps.", "Die Katze schläft."]
        >>> layers = msd.starts.choose_layers(encoder, texts, 2)
        >>> student = msd.build_student(encoder, 2, None, repeats=1, unit_from=layers)
        >>> len(layers), student.config.num_layers
        (2, 2)
    """
    encoder, texts = with_layers(encoder), some_texts(texts)
    kept = list(range(encoder.config.num_layers))
    at_least(1, count=count)
    if count > len(kept):
        raise InputError(
            "`count` must be at most the layers of the encoder. Received: "
            f"count={count}, {len(kept)} layers. Take fewer."
        )
    if len(set(texts)) < 2:
        raise InputError(
            "`texts` must have two different sentences or more. Received: "
            f"{len(texts)}, all alike. Give some hundred."
        )
    weights = encoder.weights()
    tokens = [*embedded_tokens(encoder, weights, texts)]

    def behind(layers: list[int], batches: list[np.ndarray]) -> list[np.ndarray]:
        for layer in layers:
            batches = passed(encoder.config, weights, layer, batches)
        return batches

    goal = _centred(_vectors(encoder, behind(kept, tokens)))
    variance = np.square(goal).sum()
    for _ in track(range(len(kept) - count), what="Choosing layers"):
        lost, before = {}, tokens
        for place, layer in enumerate(kept):
            rest = behind(kept[place + 1 :], before)
            change = _centred(_vectors(encoder, rest)) - goal
            lost[layer] = np.square(change).sum() / variance
            before = behind([layer], before)
        kept.remove(min(kept, key=lost.__getitem__))
    return kept


def _vectors(encoder: Encoder, batches: list[np.ndarray]) -> np.ndarray:
    """Return embeddings `(sentences, dim)` of token vectors `(n, length, hidden)`."""
    longest = max(batch.shape[1] for batch in batches)
    masks = [np.ones(batch.shape[:2], np.int32) for batch in batches]

    def padded(rows: list[np.ndarray]) -> np.ndarray:
        more = [[0, 0]] * (rows[0].ndim - 2)
        widths = [[[0, 0], [0, longest - it.shape[1]], *more] for it in rows]
        return np.concatenate([*map(np.pad, rows, widths)])

    names = [layer.name for layer in encoder.model.layers]
    pooling, *last = encoder.model.layers[names.index("pooling") :]
    vector = pooling(padded(batches), padded(masks))
    for layer in last:
        vector = layer(vector)
    return ops.convert_to_numpy(vector)


def _centred(vectors: np.ndarray) -> np.ndarray:
    return vectors - vectors.mean(axis=0)
