"""Fine-tune an encoder on graded sentence pairs, as in a notebook.

    python examples/fine_tune.py out/encoder tuned                  # example sentences
    python examples/fine_tune.py out/encoder tuned --rows graded.tsv --scale over_5

A stage is a Keras model: `compile`, `fit`, callbacks and history work as in Keras. Each
row has a score and two sentences, separated by tabs.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import keras_msd as msd


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Write the tuned encoder; return Spearman x 100 after each epoch, 0 first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="a saved encoder, or a checkpoint's folder")
    parser.add_argument("out", type=Path, help="folder for the tuned encoder")
    parser.add_argument("--rows", type=Path, help="graded pairs; else examples")
    parser.add_argument("--scale", default="over_5", help="see read_scored")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args(arguments)

    if options.rows:
        graded = msd.data.read_scored(options.rows, options.scale)
    else:
        english, german = msd.data.example_similarity(["de"]).values()
        mixed = [(e[0], e[1], d[2]) for e, d in zip(english, german, strict=True)]
        graded = msd.data.scaled_rows(mixed, "over_5")
    held_out, rows = graded[::5], [row for i, row in enumerate(graded) if i % 5]

    encoder = msd.load_encoder(options.encoder)
    stage = msd.stages.RegressSimilarity(encoder)
    batches = msd.data.ScoredBatches(rows, encoder, batch_size=32)
    updates = options.epochs * len(batches)
    stage.compile(msd.training.make_optimizer(2e-4, steps=updates))
    dev = msd.callbacks.ScoreCallback(
        encoder,
        lambda scored: msd.evaluate.sts(scored, held_out),
        best_weights=True,
    )
    stage.fit(batches, epochs=options.epochs, shuffle=False, callbacks=[dev])

    scores = [look["dev_spearman"] for look in dev.record]
    print("Spearman on held-out rows:", *(f"{score:.1f}" for score in scores))
    encoder.save(options.out)
    return scores


if __name__ == "__main__":
    main()
