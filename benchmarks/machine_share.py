"""Which share of the machine does a training step use?

Compares the floating-point operations of a step of stage 1, three times those of the
forward pass, with the best product of two matrices of 2048 x 2048 that NumPy,
TensorFlow or JAX makes in the same precision. Sentences have one length, so that
nothing is padded. Medians of the steps, the best of the products; and what kinds of
operations the time of a step goes to, by TensorFlow's own trace of a few more:

    python benchmarks/machine_share.py --json
"""

import argparse
import json
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from operations import (
    best,
    jax_product,
    median_seconds,
    step_operations,
    update_call,
)

RESULT = Path(__file__).parent / "results" / "machine_share.json"
SIDE = 2048
TRACED = 3  # steps
VOCABULARY, BOTTLENECK, WIDTH = 20000, 128, 384
# Layers and width of the two encoders.
SIZES = {"12 x 128": (12, 128), "6 x 384": (6, 384)}


def products(precision: str, rounds: int) -> dict[str, float]:
    """Return the GFLOP/s of each library."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    one, other = random.random((2, SIDE, SIDE), np.float32)
    found = {}
    if precision == "float32":
        found["numpy"] = best(lambda: one @ other, SIDE, rounds)
    a, b = (tf.cast(value, precision) for value in (one, other))
    found["tensorflow"] = best(lambda: (a @ b)[0, 0].numpy(), SIDE, rounds)
    found["jax"] = best(jax_product(SIDE, precision), SIDE, rounds)
    return {name: round(value, 1) for name, value in found.items()}


def encoder_config(layers: int, width: int, tokens: int) -> Any:
    """Return what the measured encoder is made of."""
    import keras_msd as msd

    return msd.models.EncoderConfig(
        vocabulary_size=VOCABULARY,
        bottleneck_dim=BOTTLENECK,
        hidden_dim=width,
        num_layers=layers,
        num_heads=width // 32,
        intermediate_dim=4 * width,
        max_length=tokens,
        projection_dim=WIDTH,
        pad_id=0,
    )


def step(
    config: Any, precision: str, pairs: int, tokens: int, steps: int
) -> tuple[float, dict[str, float]]:
    """Return the median seconds of a step, and the shares of kinds of operations."""
    call = update_call(config, precision, pairs, tokens)
    return median_seconds(call, steps), traced(call)


def traced(call: Callable[[], Any]) -> dict[str, float]:
    """Return the shares of the time of a call by the kinds of operations, above 1 %.

    Operations that run beside each other both count; their sum is the whole.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(TRACED):
                call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    spent: Counter[str] = Counter()
    for plane in space.planes:
        names = {key: it.name for key, it in plane.event_metadata.items()}
        for event in (event for line in plane.lines for event in line.events):
            node, colon, kind = names[event.metadata_id].rpartition(":")
            if colon and not node.endswith(":") and kind.isidentifier():
                spent[kind] += event.duration_ps
    total = sum(spent.values())
    shares = {kind: round(each / total, 3) for kind, each in spent.most_common()}
    return {kind: share for kind, share in shares.items() if share > 0.01}


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--precision", default="float32", help="or bfloat16")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from keras_msd.io.files import write_json  # before TensorFlow, for its kernels

    matrices = products(given.precision, 10)
    peak = max(matrices.values())
    models = {}
    for name, (layers, width) in SIZES.items():
        config = encoder_config(layers, width, given.tokens)
        took, operations = step(
            config, given.precision, given.pairs, given.tokens, given.steps
        )
        lengths = np.full(2 * given.pairs, given.tokens)
        rate = step_operations(config, lengths) / took / 1e9
        models[name] = {
            "ms": round(1000 * took, 1),
            "gflops": round(rate, 1),
            "share": round(rate / peak, 3),
            "pairs_per_second": round(given.pairs / took, 1),
            "operations": operations,
        }
    result = {
        "backend": os.environ.get("KERAS_BACKEND", "tensorflow"),
        "precision": given.precision,
        "pairs": given.pairs,
        "tokens": given.tokens,
        "matrix_gflops": matrices,
        "models": models,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    write_json(given.out, result)
    print("matrices of 2048:", ", ".join(f"{k} {v}" for k, v in matrices.items()))
    for name, row in models.items():
        print(
            f"{name}: {row['gflops']} GFLOP/s, {100 * row['share']:.0f} % of the best"
        )
        kinds = (f"{kind} {share:.0%}" for kind, share in row["operations"].items())
        print(f"  time: {', '.join(kinds)}")
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
