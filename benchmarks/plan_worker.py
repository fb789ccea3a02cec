"""One run of a recipe, watched from inside: called by plan.py.

Writes what each stage's updates took without those in which they are traced, what the
vectors of guides, the pairs and the token ids took, what was held while a stage
trained, and the bytes that are on disk.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

SKIPPED = 2  # updates that trace the step
GUIDES = {"Teacher": "teacher", "Encoder": "assistant", "EmbeddingGuide": "embedding"}


def around(owner: Any, name: str, work: Callable[..., Any]) -> None:
    """Have a method be called through `work(method, *arguments)`."""
    plain = getattr(owner, name)

    @wraps(plain)
    def watched(*arguments: Any, **options: Any) -> Any:
        return work(plain, *arguments, **options)

    setattr(owner, name, watched)


def reset_peak() -> None:
    """Begin to look for the most that this process holds."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the most that this process held since then, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(found)


def watch(seconds: dict[str, dict[str, float]], held: dict[str, int]) -> None:
    """Have a run keep times and memory."""
    from keras_msd.data.pair_table import PairTable
    from keras_msd.data.store import GuideStore
    from keras_msd.data.text_table import TextTable
    from keras_msd.recipes.stages.history import History

    marks: dict[str, list[float]] = defaultdict(list)

    def begin(method: Any, history: Any, *rest: Any, **options: Any) -> Any:
        reset_peak()
        marks[history._what].append(time.perf_counter())
        return method(history, *rest, **options)

    def update(method: Any, history: Any, *rest: Any, **options: Any) -> Any:
        marks[history._what].append(time.perf_counter())
        return method(history, *rest, **options)

    def end(method: Any, history: Any, *rest: Any, **options: Any) -> Any:
        times = marks[history._what]
        count = len(times) - 1
        spent = (times[-1] - times[SKIPPED]) / (count - SKIPPED) * count
        seconds["stages"][history._what] = spent
        seconds["compile"][history._what] = times[-1] - times[0] - spent
        held[history._what] = peak()
        return method(history, *rest, **options)

    def build(method: Any, store: Any, *rest: Any, **options: Any) -> Any:
        began = time.perf_counter()
        found = method(store, *rest, **options)
        name = GUIDES[type(store.guide).__name__]
        seconds["guides"][name] += time.perf_counter() - began
        return found

    def made(what: str) -> Any:
        def work(method: Any, *rest: Any, **options: Any) -> Any:
            began = time.perf_counter()
            found = method(*rest, **options)
            seconds["texts"][what] += time.perf_counter() - began
            return found

        return work

    around(History, "on_train_begin", begin)
    around(History, "on_train_batch_end", update)
    around(History, "on_train_end", end)
    around(GuideStore, "build", build)
    around(TextTable, "build", made("read"))
    around(PairTable, "build", made("tokenise"))


def size(*folders: Path) -> int:
    """Return the bytes of all files in some folders."""
    files = (path for folder in folders for path in folder.rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file())


def main() -> None:
    """Run what the job says, and write what was seen beside it."""
    job = Path(sys.argv[1])
    given = json.loads(job.read_text(encoding="utf-8"))
    from keras_msd.files import write_json
    from keras_msd.recipes import run

    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    held: dict[str, int] = {}
    watch(seconds, held)
    out, store = Path(given["out"]), Path(given["store"])
    began = time.perf_counter()
    run(
        given["recipe"],
        out,
        given["scale"],
        given["data"],
        store,
        overrides=given["overrides"],
        checkpoint_minutes=60,
    )
    whole = time.perf_counter() - began
    steps = out / "stages"
    found = {
        "seconds": seconds,
        "resident": held,
        "bytes": {
            "texts": size(*steps.glob("pairs/texts*")),
            "tokens": size(*steps.glob("tokenizer/tokens-*")),
            "guides": size(store),
        },
        "whole": whole,
    }
    write_json(job.with_suffix(".found.json"), found)


if __name__ == "__main__":
    main()
