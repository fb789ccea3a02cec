"""One process of benchmarks/distribute.py: trainings on one device and on all of them.

It prints a JSON object for each case: the largest difference of the first gradient and
of the losses, as shares of the largest entry and of each loss.
"""

import argparse
import json
import math
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_msd as msd
from keras_msd.losses import MultilingualContrastive
from keras_msd.stages import LossTerm
from keras_msd.training import chunks

ROWS = 48
STEPS = 50
RATE = 0.05
SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16}
STRATEGY = msd.distribute.distribution  # asked before anything is computed


class Guide:
    """Vectors that follow from the text."""

    fingerprint = "by hash"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode(self, texts):
        """Return float32 `(n, dim)`."""
        seeds = [list(text.encode()) for text in texts]
        draws = [np.random.default_rng(seed) for seed in seeds]
        return np.stack([draw.standard_normal(self.dim, np.float32) for draw in draws])


def pairs():
    """Return pairs of which two thirds share their English line with another."""
    words = " ".join(text for line in msd.testing.SENTENCES for text in line[:2])
    draw = np.random.default_rng(5)
    made = []
    for number in range(ROWS):
        chosen = draw.choice(words.split(), (2, draw.integers(2, 9)))
        english, other = (" ".join(row) for row in chosen)
        source = made[-1][0] if number % 3 == 2 else english
        made.append((source, other, ("de", "fr")[number % 3 == 2]))
    return made


def similar(encoder, **options):
    """Return stage 4 with a term that is a sum, and one over similarities."""
    losses = [
        LossTerm("likeness", "similarity_distribution", "teacher"),
        LossTerm(
            "printed",
            MultilingualContrastive("ce_soft", reduction="sum"),
            "teacher",
            grouped=True,
            weight=0.01,
        ),
    ]
    return msd.stages.ContrastiveLearning(encoder, losses=losses, **options)


def contrastive(target):
    """Return the case of one target of `ContrastiveLearning`."""
    make = partial(msd.stages.ContrastiveLearning, target=target)
    return make, {"teacher": "source"}


THIN = partial(msd.stages.TeachThinDeep, teacher_dim=16, feature_weight=1.0)
BOTH = {"teacher_source": "source", "teacher_target": "target"}
BLOCK = {"embedding_source": "source", "embedding_target": "target"}
CASES = {
    "similarities": (partial(similar, target="bool"), {"teacher": "source"}),
    "thin_deep_chunks": (partial(THIN, logit_weight=1.0, chunk_size=2), BOTH),
    "align_per_token": (partial(msd.stages.AlignEmbedding, per_token=True), BLOCK),
    "teach_assistant": (msd.stages.TeachAssistant, {"teacher": "source"}),
    "align_embedding": (msd.stages.AlignEmbedding, BLOCK),
    "teach_student": (
        msd.stages.TeachStudent,
        {"assistant_source": "source", "assistant_target": "target"},
    ),
    **{
        f"contrastive_{target}": contrastive(target)
        for target in ("soft", "bool", "ce_soft", "ce_hard", "softmax")
    },
    "thin_deep": (partial(THIN, logit_weight=1.0), BOTH),
    "thin_deep_first": (
        partial(THIN, logit_weight=1.0, feature="distillation_first"),
        BOTH,
    ),
}


def in_float64():
    """Have Keras, and what we cast to float32, compute in float64 from here on."""
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    chunks.LOSS_DTYPE = "float64"
    if keras.backend.backend() == "jax":
        # Keras' attention, LayerNorm and mean compute in float32 there whatever is
        # asked.
        SMALL.update(num_layers=0, embedding_layer_norm=False)
        keras.ops.mean = _mean
    cast = keras.ops.cast
    keras.ops.cast = lambda x, dtype: cast(x, _wide(dtype))
    for made in (keras.layers.Layer, keras.losses.Loss):
        plain = made.__init__

        def init(self, *given, plain=plain, **options):
            if "dtype" in options:
                options["dtype"] = _wide(options["dtype"])
            plain(self, *given, **options)

        made.__init__ = init


def _mean(x, axis=None, keepdims=False):
    total = keras.ops.sum(x, axis=axis, keepdims=keepdims)
    return total * (math.prod(total.shape) / math.prod(x.shape))


def _wide(dtype):
    return "float64" if dtype == "float32" else dtype


class Watch(keras.callbacks.Callback):
    """Keeps every loss, the weights behind the first update, and vectors at the end."""

    def __init__(self, encoder):
        super().__init__()
        self.losses, self.first, self.vectors = [], None, None
        self.encoder = encoder

    def on_train_end(self, logs=None):
        """Encode, as callbacks that score do."""
        if self.model is not None:
            self.vectors = self.encoder.encode(["A cat.", "Ein Hund."], progress=False)

    def on_train_batch_end(self, batch, logs=None):
        """Keep the loss of this update alone."""
        self.losses.append(float(logs["loss"]))
        if self.first is None:
            self.first = weights(self.model)
        self.model.reset_metrics()


class KillAt(keras.callbacks.Callback):
    """Ends this process as a failing machine does."""

    def __init__(self, update):
        super().__init__()
        self.update = update

    def on_train_batch_end(self, batch, logs=None):
        """Kill, where it is time."""
        if batch + 1 == self.update:
            os.kill(os.getpid(), signal.SIGKILL)


def weights(stage):
    """Return what a stage trains."""
    return [stage.to_numpy(it) for it in stage.trainable_variables]


def train(
    case,
    spread,
    folder,
    steps,
    batch,
    optimizer="sgd",
    callbacks=(),
    dropout=0.0,
    checkpoints=None,
):
    """Return losses, the first gradient under "sgd", the last weights, and vectors.

    With a folder of checkpoints there is a `CollapseMonitor`, as in a run.
    """
    make, sides = CASES[case]
    keras.utils.set_random_seed(3)
    tokenizer = msd.testing.tiny_tokenizer()
    assistant = msd.testing.tiny_encoder(tokenizer, **SMALL)
    with spread.scope():
        dims = {"projection_dim": 16} if case == "thin_deep_first" else {}
        encoder = msd.testing.tiny_encoder(tokenizer, dropout=dropout, **SMALL | dims)
    guide = Guide(16)
    if sides is BLOCK:
        guide = assistant.embedding_guide(per_token=case == "align_per_token")
    store = msd.data.GuideStore(guide, folder / f"guide-{case}")
    batches = msd.data.PairBatches(
        pairs(),
        encoder,
        {name: (store, side) for name, side in sides.items()},
        batch_size=batch,
        epochs=1 + steps * batch // ROWS,
        multiple=16,
        folder=folder / "table",
    )
    watch = Watch(encoder)
    callbacks = [watch, *callbacks]
    if checkpoints:
        first, _ = batches.batch(0)
        callbacks.append(msd.training.CollapseMonitor(first, every=2))
    with spread.scope():
        stage = make(encoder)
        made = keras.optimizers.SGD(RATE, momentum=0.9, global_clipnorm=1e3)
        if optimizer == "adamw":
            made = msd.training.make_optimizer(1e-3, steps=steps)
        stage.compile(made)
        before = weights(stage)
        options = {"callbacks": callbacks, "verbose": 0}
        if checkpoints:
            place = {"folder": checkpoints, "minutes": 0, "updates": steps}
            msd.training.fit(stage, batches, **place, **options)
        else:
            stage.fit(batches, steps_per_epoch=steps, shuffle=False, **options)
        after = weights(stage)
        alike = same_everywhere(stage)
    moved = zip(before, watch.first or before, strict=True)
    gradient = [(old - new) / RATE for old, new in moved]
    return watch.losses, gradient, after, alike, watch.vectors


def same_everywhere(stage):
    """Tell whether all devices of this process have the same weights."""
    found = []
    for variable in stage.trainable_variables:
        value = variable.value
        if keras.backend.backend() == "jax":
            copies = [np.asarray(shard.data) for shard in value.addressable_shards]
        else:
            copies = stage.distribute_strategy.experimental_local_results(value)
            copies = [np.asarray(copy) for copy in copies]
        found += [np.array_equal(copies[0], copy) for copy in copies]
    return all(found)


def compare(case, spread, folder, steps, batch, optimizer):
    """Return what differs between one device and all."""
    one = train(case, msd.distribute.Distribution(), folder, steps, batch, optimizer)
    many = train(case, spread, folder, steps, batch, optimizer)
    largest = max(np.abs(it).max() for it in one[1])
    pairs = zip(one[1], many[1], strict=True)
    gradient = max(np.abs(a - b).max() for a, b in pairs) / largest
    losses = zip(one[0], many[0], strict=True)
    return {
        "case": case,
        "gradient": float(gradient) if optimizer == "sgd" else None,
        "losses": max(abs(a - b) / abs(a) for a, b in losses),
        "first_loss": one[0][0],
        "same_weights": many[3],
        "vectors": float(np.abs(one[4] - many[4]).max()),
    }


def main():
    """Do the cases, or one training with checkpoints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rows", type=int, default=8, help="Of a batch.")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--folder", type=Path, help="Trains with checkpoints alone.")
    parser.add_argument("--kill-at", type=int, help="This process, after that update.")
    given = parser.parse_args()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        logical = [tf.config.LogicalDeviceConfiguration()] * given.devices
        (processor,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(processor, logical)
    spread = STRATEGY()
    if given.float64:
        in_float64()
    with tempfile.TemporaryDirectory() as name:
        if given.folder:
            checkpointed(given, spread, Path(name))
            return
        for case in given.cases.split(","):
            length = given.steps, given.rows, given.optimizer
            row = compare(case, spread, Path(name), *length)
            row |= {"replicas": spread.replicas, "processes": spread.processes}
            print(json.dumps(row), flush=True)


def checkpointed(given, spread, folder):
    """Train a case with a checkpoint at each update; keep weights and losses."""
    if keras.backend.backend() == "tensorflow":
        from keras_msd.distribute import make_deterministic

        make_deterministic()
    callbacks = [KillAt(given.kill_at)] if given.kill_at else []
    # JAX draws the same masks on any number of devices.
    dropout = 0.1 if keras.backend.backend() == "jax" else 0.0
    length = given.steps, given.rows, "adamw"
    options = callbacks, dropout, given.folder / "checkpoints"
    losses, _, last, *_ = train(given.cases, spread, folder, *length, *options)
    if spread.process == 0:
        np.savez(given.folder / "last.npz", *last)
    print(json.dumps({"losses": losses}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
