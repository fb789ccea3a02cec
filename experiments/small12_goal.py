r"""Make the encoder whose vectors small12 learns, from small12_pairs.

Its weights are the mean of those of small12_pairs and of multilingual-e5-small
(`recipes/small12.toml` has the share), and a projection after the pooling evens out how
much directions vary (`starts.whiten`). It stays in float32; small12 learns its vectors
without a projection and with weights in 4 bits.

    python experiments/small12_goal.py runs/small12_pairs/assistant --data DATA \
        --out runs/small12_goal

It needs the packages of requirements-backbones.txt.
"""

import argparse
import sys
from pathlib import Path

from keras_msd import load_encoder
from keras_msd.models import average_weights, merge_projection
from keras_msd.recipes import load_recipe
from keras_msd.starts import whiten

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from corpora import sentences  # noqa: E402

TEXTS = 20_000
STRENGTH = 0.1


def main() -> None:
    """Make and save the encoder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    average = load_recipe("small12").assistant.average
    if average is None:
        raise SystemExit("`assistant.average` must stand in recipes/small12.toml.")
    backbone = load_encoder(average.source)
    mean = average_weights(load_encoder(given.encoder), backbone, average.share)
    texts = sentences(given.data / "parallel/train", TEXTS)
    matrix = whiten(mean.encode(texts), STRENGTH)
    merge_projection(mean, matrix).save(given.out)


if __name__ == "__main__":
    main()
