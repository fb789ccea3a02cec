"""Measures on this machine what a plan multiplies."""

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.checks import at_least, one_of
from keras_msd.models.config import EncoderConfig
from keras_msd.plan.constants import (
    OVERHEAD_GB,
    Calibration,
    Costs,
    Texts,
    add_calibration,
    calibration_file,
    costs_name,
    read_calibration,
)
from keras_msd.plan.devices import CPU, DEVICES
from keras_msd.plan.memory import (
    FLOAT,
    SLOTS,
    Batch,
    activation_numbers,
    layer_numbers,
    parameters,
    trained_parameters,
)
from keras_msd.plan.operations import TRAINING, best, step_operations
from keras_msd.stages.precision import POLICIES, computing_in

WIDTHS = (128, 384, 768)
LAYERS = {128: 4, 384: 3}  # so that none takes long
SHALLOW, DEEP = 1, 6  # layers, to tell what each keeps from what is held once
FEWEST_LAYERS = 2
HEAD = 32  # numbers of a head
FEW_PIECES, MANY_PIECES, TABLE_WIDTH = 1000, 50_000, 256
MORE_PAIRS = 8  # times as many, to tell rows from the rest
SIDE, ROUNDS = 2048, 10  # of the matrices whose product gives the peak
WARM = 2  # updates that trace the step and fill caches
VECTOR, BATCH, PIECES = 384, 64, 2000


def calibrate(
    path: str | Path | None = None,
    device: str = CPU,
    precision: str = "float32",
    widths: Sequence[int] = WIDTHS,
    pairs: int = 64,
    tokens: int = 32,
    updates: int = 3,
    rows: int = 20_000,
) -> Calibration:
    """Measure what updates, forward passes, memory and texts cost here.

    In a process of its own encoders with random weights are trained for a few updates
    of made batches: the share of the peak in bodies of each width, what the optimizer
    costs for a parameter and the embedding block for a number of a token's row, and how
    much more an update holds than the formula of its activations says. A made corpus is
    cleaned, tokenised, given vectors and read. It takes two minutes.

    Args:
        path: Where results are kept, beside those of other devices; by default in the
            folder of the stores.
        device: What the backend computes on: "cpu", or a name in `DEVICES`.
        precision: "float32" or "bfloat16".
        widths: Of the layers of the bodies, multiples of 32 or below it, ascending.
        pairs: In a batch.
        tokens: Of a sentence.
        updates: Timed ones of each encoder.
        rows: Pairs of the made corpus.

    Returns:
        All that is known of this machine.

    Raises:
        InputError: An argument is out of its range, or the file is damaged.

    Example:
        >>> small = {"widths": (16,), "pairs": 4, "tokens": 8, "rows": 200}
        >>> known = msd.plan.calibrate("calibration.json", **small)
        >>> [costs.peak > 0 for costs in known.costs.values()]
        [True]
    """
    one_of([CPU, *DEVICES], device=device)
    one_of(POLICIES, precision=precision)
    at_least(1, pairs=pairs, tokens=tokens, updates=updates, widths=len(widths))
    at_least(BATCH, rows=rows)
    where = Path(path or calibration_file())
    given = device, precision, tuple(widths), pairs, tokens, updates
    # Of its own: what this process has held before would hide what an update holds.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        costs = pool.submit(measure_costs, *given).result()
    texts = measure_texts(rows)
    name = costs_name(device, keras.backend.backend(), precision)
    add_calibration(where, name, texts, costs)
    return read_calibration(where)


def measure_costs(
    device: str,
    precision: str,
    widths: Sequence[int],
    pairs: int,
    tokens: int,
    updates: int,
) -> Costs:
    """Return what computing costs; arguments as for `calibrate`."""
    peak = 1e9 * best(_product(precision), SIDE, ROUNDS)

    def seconds(config: EncoderConfig, count: int = pairs) -> float:
        call = update_call(config, precision, count, tokens)
        return median_seconds(call, updates)

    table = _config(0, TABLE_WIDTH, tokens)
    first = seconds(table)
    process = _peak_bytes()
    middle = sorted(widths)[len(widths) // 2]
    # Before all that may hold more: a process keeps what it once had.
    held = []
    for layers in (SHALLOW, DEEP):
        seconds(_config(layers, middle, tokens))
        held.append(_peak_bytes() - process)
    bodies = [
        _config(LAYERS.get(it, FEWEST_LAYERS), it, tokens) for it in sorted(widths)
    ]
    spent = [seconds(it) for it in bodies]
    many = 2 * pairs * tokens
    more = seconds(table, MORE_PAIRS * pairs) - first
    table_s = max(more, 0.0) / ((MORE_PAIRS - 1) * many * TABLE_WIDTH)
    larger = table.model_copy(update={"vocabulary_size": MANY_PIECES})
    beyond = (MANY_PIECES - FEW_PIECES) * TABLE_WIDTH
    optimizer_s = max(seconds(larger) - first, 0.0) / beyond
    trained = trained_parameters(table, ())
    rest = first - many * TABLE_WIDTH * table_s - trained * optimizer_s
    update_s = max(rest, 0.0)
    training, encoding = {}, {}
    for config, took in zip(bodies, spent, strict=True):
        width = config.hidden_dim
        operations = step_operations(config, np.full(2 * pairs, tokens))
        base = update_s + many * width * table_s + parameters(config) * optimizer_s
        # Of a body that is next to nothing the difference would be noise.
        training[width] = operations / max(took - base, took / 2) / peak
        forward = _forward_seconds(config, precision, 2 * pairs, tokens, updates)
        encoding[width] = operations / TRAINING / forward / peak
    factor, working, beside = 1.0, 1.0, 1e9 * OVERHEAD_GB
    if device == CPU:  # of others nothing is in this process
        factor, working = _activations(middle, precision, pairs, tokens, held)
        beside = process
    return Costs(
        peak,
        training,
        encoding,
        optimizer_s,
        table_s,
        update_s,
        factor,
        working,
        float(beside),
    )


def update_call(
    config: EncoderConfig, precision: str, pairs: int, tokens: int
) -> Callable[[], Any]:
    """Return what does an update of stage 1 with a random batch.

    Args:
        config: Of the encoder.
        precision: What it computes in.
        pairs: In the batch.
        tokens: Of each sentence, so that nothing is padded.
    """
    from keras_msd.models.network import build_model
    from keras_msd.stages.imitation import TeachAssistant
    from keras_msd.stages.optimizer import make_optimizer

    with computing_in(precision):
        stage = TeachAssistant(build_model(config))
    stage.compile(make_optimizer(learning_rate=2e-4, steps=1000))
    random = np.random.default_rng(0)
    x: dict[str, np.ndarray] = {"group": np.arange(pairs, dtype=np.int32)}
    for side in ("source", "target"):
        batch = _batch(config, pairs, tokens, random)
        x |= {f"{side}_{name}": value for name, value in batch.items()}
    goals = random.normal(size=(pairs, config.dim)).astype(np.float32)
    return lambda: stage.train_on_batch(x, {"teacher": goals})


def measure_texts(rows: int) -> Texts:
    """Return what texts cost, from a made corpus of so many pairs."""
    from keras_msd.data.batches import PairBatches, guide_rows
    from keras_msd.data.made.corpus import made_pairs, write_made_data
    from keras_msd.data.pair_table import PairTable
    from keras_msd.data.readers.discover import read_pairs
    from keras_msd.data.store import GuideStore
    from keras_msd.data.text_table import TextTable
    from keras_msd.tokenizers.sentencepiece import train_unigram

    languages = ("de", "fr")
    pairs = made_pairs(rows, languages)
    both = [text for pair in pairs for text in pair[:2]]
    tokenizer = train_unigram(both, PIECES, at_most=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        data = write_made_data(place / "data", languages, rows // len(languages))
        corpus = read_pairs(data / "parallel" / "train")
        marks = [time.perf_counter()]
        texts = TextTable.build(corpus, place / "texts")
        marks.append(time.perf_counter())
        table = PairTable.build(texts, tokenizer, place / "tokens")
        marks.append(time.perf_counter())
        store = GuideStore(_Numbers(), place / "store")
        guide_rows(table, store, "source")
        marks.append(time.perf_counter())
        reader = _Reader(tokenizer, table.max_length)
        guides = {"guide": (store, "source")}
        batches = PairBatches(table, reader, guides, batch_size=BATCH)
        began = time.perf_counter()
        for position in range(len(batches)):
            batches.batch(position)
        read = time.perf_counter() - began
        everything = np.arange(len(table))
        tokens = sum(
            table.lengths(side, everything).sum() for side in ("source", "target")
        )
        spent = np.diff(marks) / [len(texts), tokens, len(store)]
    clean_s, tokenise_s, store_s = map(float, spent)
    return Texts(clean_s, tokenise_s, store_s, read / (BATCH * len(batches)))


class _Numbers:
    """A guide whose vectors cost nothing."""

    dim, fingerprint = VECTOR, "numbers"

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), VECTOR), np.float32)


class _Reader:
    """What batches ask of an encoder."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length


def _config(layers: int, width: int, tokens: int) -> EncoderConfig:
    return EncoderConfig(
        vocabulary_size=FEW_PIECES,
        hidden_dim=width,
        num_layers=layers,
        num_heads=max(width // HEAD, 1),
        intermediate_dim=4 * width,
        max_length=max(tokens, 2),
        dropout=0.0,
        pad_id=0,
    )


def _batch(
    config: EncoderConfig, rows: int, tokens: int, random: np.random.Generator
) -> dict[str, np.ndarray]:
    ids = random.integers(1, config.vocabulary_size, (rows, tokens))
    mask = np.ones((rows, tokens), np.int32)
    return {"token_ids": ids.astype(np.int32), "padding_mask": mask}


def _forward_seconds(
    config: EncoderConfig, precision: str, rows: int, tokens: int, passes: int
) -> float:
    from keras_msd.models.network import build_model, forward_pass

    with computing_in(precision):
        forward = forward_pass(build_model(config))
    batch = _batch(config, rows, tokens, np.random.default_rng(0))
    return median_seconds(lambda: np.asarray(forward(batch)), passes)


def median_seconds(work: Callable[[], Any], times: int) -> float:
    """Return the median seconds of a call, after some that do not count."""
    spent = []
    for _ in range(times + WARM):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[WARM:])


def _product(precision: str) -> Callable[[], Any]:
    """Return what multiplies two matrices, and waits for the product."""
    random = np.random.default_rng(0)
    one, other = (
        ops.cast(random.random((SIDE, SIDE), np.float32), precision) for _ in range(2)
    )
    return lambda: float(ops.cast(ops.matmul(one, other)[0, 0], "float32"))


def _activations(
    width: int, precision: str, pairs: int, tokens: int, held: Sequence[float]
) -> tuple[float, float]:
    """Return what updates of a shallow and a deep body held of activations.

    Returns:
        For each layer, and once besides, both in numbers of the formula.
    """
    size = 2 if precision == "bfloat16" else FLOAT
    batch = Batch(pairs, tokens, tokens)
    configs = [_config(layers, width, tokens) for layers in (SHALLOW, DEEP)]
    shallow, deep = (
        max(it - (2 + SLOTS) * FLOAT * parameters(config), 0.0) / size
        for it, config in zip(held, configs, strict=True)
    )
    few, many = (activation_numbers(it, batch) for it in configs)
    each = max(deep - shallow, 0.0) / (many - few)
    return each, max(shallow - each * few, 0.0) / layer_numbers(configs[0], batch)


def _peak_bytes() -> int:
    """Return the most that this process has held."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found
