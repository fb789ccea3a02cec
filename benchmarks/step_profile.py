"""Which share of the machine does a training step use, and where does its time go?

Compares the floating-point operations of a step of stage 1, three times those of the
forward pass, with the best product of two matrices in the same precision. Sentences
have one length, so that nothing is padded. Then the backend's own trace of a few steps
is summed by kind of operation; XLA fuses operations, so under JAX a kind is a product,
a fusion, or another instruction. `--isa avx2` leaves AVX-512 unused:

    python benchmarks/step_profile.py
    KERAS_BACKEND=jax python benchmarks/step_profile.py --isa avx2

Adds a row to benchmarks/results/step_profile.json.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu_run import (
    SHAPE,
    least_seconds,
    random_batch,
    repeated,
    step_operations,
    timed,
)
from workers import LIMITS

RESULT = Path(__file__).parent / "results" / "step_profile.json"
ENCODER = {"vocabulary_size": 20_000, "bottleneck_dim": 128, "num_layers": 6}
SIDES, TRACED = (1024, 2048, 4096), 3  # matrices; steps


def best_product(precision: str, isa: str) -> float:
    """Return the GFLOP/s of the fastest product, of all sides and libraries."""
    import jax
    import tensorflow as tf

    multiply, rates = jax.jit(lambda one, other: one @ other), []
    for side in SIDES:
        drawn = np.random.default_rng(0).random((2, side, side), np.float32)
        a, b = (tf.cast(it, precision) for it in drawn)
        c, d = (jax.numpy.asarray(it, precision) for it in drawn)
        calls: list[Callable[[], Any]] = [lambda a=a, b=b: (a @ b)[0, 0].numpy()]
        if isa == "all":  # products of XLA and NumPy cannot be limited
            calls.append(lambda c=c, d=d: multiply(c, d).block_until_ready())
        if isa == "all" and precision == "float32":
            calls.append(lambda drawn=drawn: drawn[0] @ drawn[1])
        for call in calls:
            rates.append(2 * side**3 / least_seconds(call, 8) / 1e9)
    return max(rates)


def kinds(call: Callable[[], Any]) -> dict[str, float]:
    """Return the shares of the time of a call by kind of operation, above 1 %.

    Operations that run beside each other both count; their sum is the whole.
    """
    import jax
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    jax_runs = os.environ.get("KERAS_BACKEND") == "jax"
    trace = jax.profiler.trace if jax_runs else tf.profiler.experimental.Profile
    with tempfile.TemporaryDirectory() as folder:
        with trace(folder):
            call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    spent: Counter[str] = Counter()
    for plane in space.planes:
        names = {key: it.name for key, it in plane.event_metadata.items()}
        for event in (event for line in plane.lines for event in line.events):
            if kind := kind_of(names[event.metadata_id], jax_runs):
                spent[kind] += event.duration_ps
    total = sum(spent.values())
    shares = {kind: round(each / total, 3) for kind, each in spent.most_common()}
    return {kind: share for kind, share in shares.items() if share > 0.01}


def kind_of(name: str, jax_runs: bool) -> str:
    """Return the kind of operation of an event of a trace, "" for other events."""
    if jax_runs:
        found = re.fullmatch(r"([a-z][a-z_-]*?)(?:[._]\d+)*", name)
        return found[1] if found else ""
    node, colon, kind = name.rpartition(":")
    return kind if colon and not node.endswith(":") and kind.isidentifier() else ""


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--precision", default="float32", help="or bfloat16")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--isa", choices=LIMITS, default="all")
    given = parser.parse_args()
    os.environ |= LIMITS[given.isa]

    import keras_msd as msd
    from keras_msd.training.profile import computing_in

    peak = best_product(given.precision, given.isa)
    shape = SHAPE | ENCODER
    config = msd.models.EncoderConfig(
        **shape, max_length=given.tokens, dropout=given.dropout
    )
    with computing_in(given.precision):
        stage = msd.stages.TeachAssistant(msd.models.build_model(config))
    stage.compile(msd.training.make_optimizer(learning_rate=2e-4, steps=1000))
    x, y = random_batch(stage, config, given.pairs, given.tokens)
    took = statistics.median(timed(stage, x, y, given.steps)[1] for _ in range(3))
    lengths = np.full(2 * given.pairs, given.tokens)
    rate = step_operations(config, lengths) / took / 1e9
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    row = {
        "milliseconds": round(1000 * took, 1),
        "gflops": round(rate, 1),
        "best_product_gflops": round(peak, 1),
        "share": round(rate / peak, 3),
        "kinds": kinds(lambda: stage.fit(repeated(x, y, TRACED), verbose=0)),
    }
    known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    known[f"{backend}, {given.precision}, {given.isa}, dropout {given.dropout}"] = row
    RESULT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
