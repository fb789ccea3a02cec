"""Parameters, bytes and sentences a second of the default teacher and students of it.

Students are not trained: their speed and size do not depend on that. Times depend on
the machine and its load, so nothing else should run.

    make bench
"""

import platform

from keras_msd import Encoder, build_student, load_encoder
from keras_msd.evaluate import cost, speed
from keras_msd.teachers.teacher import default_folder
from keras_msd.testing import tiny_pairs

SENTENCES = [text for pair in tiny_pairs() for text in (pair.source, pair.target)] * 16
SHAPES = (
    {"unit_layers": 3, "repeats": 2, "bottleneck_dim": 128},
    {"unit_layers": 1, "repeats": 3, "bottleneck_dim": 64},
)


def row(name: str, encoder: Encoder) -> str:
    """Return one line of the table."""
    size = cost(encoder)
    rate = speed(encoder, SENTENCES)["sentences_per_second"]
    megabytes = size["bytes"] / 1e6
    return f"{name:54} {size['parameters']:>12,} {megabytes:>7.1f} {rate:>12,.1f}"


def main() -> None:
    """Print the table."""
    teacher = load_encoder(default_folder())
    print(platform.system(), platform.machine(), "Python", platform.python_version())
    print(f"{'encoder':54} {'parameters':>12} {'MB':>7} {'sentences/s':>12}")
    print(row("teacher", teacher))
    for shape in SHAPES:
        name = ", ".join(f"{key}={value}" for key, value in shape.items())
        print(row(f"student, {name}", build_student(teacher, **shape)))


if __name__ == "__main__":
    main()
