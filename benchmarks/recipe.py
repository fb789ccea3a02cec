"""What does each measure that saves time bring to the four stages?

Runs the four stages on real pairs with all measures, with each of them off, and with
all off, at equal updates; each run in a process of its own, by turns; medians. A time
is that from texts to the last weights, without imports. Measures:

- `stored`: vectors of guides are computed once, not for every batch;
- `grouped`: batches are grouped by length, not drawn at random;
- `kernels`: TensorFlow uses oneDNN;
- `bfloat16`: where the processor gains by it; it is not counted elsewhere.

With the default teacher:

    python benchmarks/recipe.py --data DATA --json
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "recipe.json"
MEASURES = ("stored", "grouped", "kernels", "bfloat16")
SIZE = {"num_layers": 4, "hidden_dim": 192, "num_heads": 6, "intermediate_dim": 768}
EPOCHS, BATCH = 4, 64


def run_stages(about: dict[str, Any]) -> float:
    """Run the four stages and return the seconds."""
    import numpy as np

    import keras_msd as msd
    from keras_msd.data import order
    from keras_msd.data.tables import TextTable
    from keras_msd.training.precision import computing_in

    class Anew(msd.data.GuideStore):
        """Computes vectors whenever they are asked for."""

        texts: np.ndarray

        def vectors(self, rows: np.ndarray) -> np.ndarray:
            return self.guide.encode(self.texts[rows].tolist())

    off = set(about["off"])
    if "grouped" in off:
        order.WINDOW_BATCHES = 1
    folder = Path(about["folder"])
    teacher = msd.load_teacher("default")
    pairs = [msd.data.Pair(*pair, "xx") for pair in about["pairs"]]
    with computing_in("float32" if "bfloat16" in off else "bfloat16"):
        tokenizer = msd.load_encoder(about["model"]).tokenizer
        assistant = msd.new_encoder(
            tokenizer, **SIZE, max_length=about["tokens"], projection_dim=teacher.dim
        )
        student = msd.build_student(assistant, unit_layers=2, bottleneck_dim=64)
    began = time.perf_counter()
    table = TextTable.build(msd.data.Pairs.from_list(pairs), folder / "texts")

    def store(guide: Any, side: str) -> tuple[Any, str]:
        name = f"{guide.fingerprint}-{side}"
        if "stored" not in off:
            return msd.data.GuideStore(guide, folder / name), side
        anew = Anew(guide, folder / name)
        texts = [text for part in table.chunks(side) for text in part]
        # The store's rows are those of the distinct texts in the order of their coming.
        anew.texts = np.array(list(dict.fromkeys(texts)), object)
        anew.build = lambda *_, **__: None  # type: ignore[method-assign]
        place = {text: row for row, text in enumerate(anew.texts)}
        anew.rows = lambda asked: np.array([place[t] for t in asked])  # type: ignore[method-assign]
        return anew, side

    def both(name: str, guide: Any) -> dict[str, tuple[Any, str]]:
        return {f"{name}_{side}": store(guide, side) for side in ("source", "target")}

    def train(stage: Any, guides: dict[str, tuple[Any, str]]) -> None:
        data = msd.data.PairBatches(
            table,
            stage.trained_encoder(),
            guides,
            batch_size=BATCH,
            epochs=EPOCHS,
            folder=folder,
        )
        stage.compile(msd.training.make_optimizer(learning_rate=1e-4, steps=len(data)))
        stage.fit(data, verbose=0, shuffle=False)

    by_teacher = {"teacher": store(teacher, "source")}
    train(msd.stages.TeachAssistant(assistant), by_teacher)
    train(
        msd.stages.AlignEmbedding(student),
        both("embedding", assistant.embedding_guide()),
    )
    train(msd.stages.TeachStudent(student), both("assistant", assistant))
    train(msd.stages.ContrastiveLearning(student), by_teacher)
    return time.perf_counter() - began


def seconds(job: dict[str, Any], off: tuple[str, ...]) -> float:
    """Run the stages in a process of their own."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "job.json"
        path.write_text(json.dumps(job | {"off": off, "folder": scratch}))
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        kernels = {"TF_ENABLE_ONEDNN_OPTS": str(int("kernels" not in off))}
        done = subprocess.run(
            [sys.executable, __file__, "--job", str(path)],
            env=os.environ | quiet | kernels,
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pairs", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=64, help="most of a text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        print(run_stages(json.loads(given.job.read_text())))
        return

    from training import read_pairs

    from keras_msd.io.files import write_json
    from keras_msd.teachers.teacher import default_folder
    from keras_msd.training.precision import faster_precision

    began = time.monotonic()
    gains = faster_precision() == "bfloat16"
    measures = [name for name in MEASURES if gains or name != "bfloat16"]
    never = () if gains else ("bfloat16",)
    arms = {"all measures": never}
    arms |= {f"without {name}": (name, *never) for name in measures}
    arms |= {"none": MEASURES}
    job = {"model": default_folder(), "tokens": given.tokens}
    job["pairs"] = read_pairs(given.data, given.pairs)
    spent: dict[str, list[float]] = {name: [] for name in arms}
    names = list(arms)
    for number in range(given.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            spent[name].append(round(seconds(job, arms[name]), 2))
            print(f"{name}: {spent[name][-1]} s", file=sys.stderr)
    middle = {name: statistics.median(each) for name, each in spent.items()}
    factors = {
        name: round(each / middle["all measures"], 3) for name, each in middle.items()
    }
    result = {
        "ratio": factors["none"],
        "factors": factors,
        "seconds": middle,
        "rounds": spent,
        "pairs": given.pairs,
        "updates": 4 * EPOCHS * (given.pairs // BATCH),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    write_json(given.out, result)
    for name in arms:
        print(f"{name:20} {middle[name]:8.1f} s  {factors[name]:5.2f}")
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
