"""What damage.py does in a process of its own, and what is seen of it.

A child is forked from a process that has imported all and computed nothing. It may have
a limit on the sizes of its files, a teacher that raises at its k-th call, a clock that
jumps, or an end before some file takes its name. It tells which files it opened.
"""

import contextlib
import gc
import io
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

RECIPE, SCALE = "msd_xlmr_b128_ru3", "smoke"
SMALL: dict[str, Any] = {
    "assistant.num_layers": 2,
    "assistant.hidden_dim": 16,
    "assistant.num_heads": 2,
    "assistant.intermediate_dim": 16,
    "teacher.source": "counted-words",
    "teacher.dim": 16,
    "teacher.multilingual": True,  # it is called for more
    "data.languages": ["de"],
    "data.pairs_per_language": 60,
    "tokenizer.vocabulary_size": 120,
    "student.start": "svd",
    "starts.closed_form": False,
    "evaluate.artefacts": False,
    "evaluate.intermediate": "none",
    # Stages leave the same kinds of files; this one is the fastest.
    "stages.teach_assistant.skip": True,
    "stages.align_embedding.steps": 4,
    "stages.teach_student.skip": True,
    "stages.contrastive_learning.skip": True,
}
FAILED = "the teacher failed"
LONGEST_S = 300  # of a child; it is killed then
DAY_S = 86400.0
calls = {"teacher": 0, "clock": 0}  # of this process


class Conditions(NamedTuple):
    """What a child has to live with.

    Attributes:
        limit: Most bytes of a file.
        fails_at: The teacher's call that raises, from 1.
        clock: From this call of the clocks on they have jumped by that many days.
        days: Negative ones move the time of day alone: a monotonic clock never goes
            back.
        stops_at: The process ends before the n-th file takes a name of this pattern.
    """

    limit: int | None = None
    fails_at: int = 0
    clock: int = 0
    days: float = 0.0
    stops_at: tuple[str, int] | None = None


class Outcome(NamedTuple):
    """What came of a child.

    Attributes:
        code: 0, 2 where it ended with a message, None where it did in another way.
        said: What went to stdout and stderr.
        events: ("read" or "named", path below the watched folder) in order.
        calls: Of teacher and clock.
    """

    code: int | None
    said: str
    events: list[tuple[str, str]]
    calls: dict[str, int]

    def read(self, name: str) -> bool:
        """Tell whether a file, or one below a folder, was opened as it was before."""
        for event, path in self.events:
            if path == name or path.startswith(f"{name}/"):
                return event == "read"
        return False


def in_a_child(
    work: Callable[[], int], folder: Path, conditions: Conditions, heard: Path
) -> Outcome:
    """Fork, work there, and return what came of it.

    Args:
        work: Returns the exit code.
        folder: The one that is watched.
        conditions: What the child has to live with.
        heard: A file outside of it, for what the child tells.
    """
    heard.unlink(missing_ok=True)
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = json.loads(heard.read_text()) if heard.is_file() else {}
        events = [(event, path) for event, path in told.get("events", ())]
        said = told.get("said", f"ended with {code}")
        code_known = code if code in (0, 2) else None
        return Outcome(code_known, said, events, told.get("calls", {}))
    code, words, events = 70, io.StringIO(), []
    try:
        signal.alarm(LONGEST_S)
        watch(folder, events, conditions.stops_at)
        with contextlib.redirect_stderr(words), contextlib.redirect_stdout(words):
            impose(conditions)
            code = work()
    except BaseException:
        words.write(traceback.format_exc())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        told = {"said": words.getvalue(), "events": list(events), "calls": calls}
        heard.write_text(json.dumps(told))
        os._exit(code)


def watch(
    folder: Path, events: list[tuple[str, str]], stops_at: tuple[str, int] | None
) -> None:
    """Write down which files below a folder Python opens, and which get a name."""
    start, seen = f"{folder}{os.sep}", 0

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "os.rename":
            kind, path = "named", given[1]
        elif event == "sqlite3.connect":
            kind, path = "read", given[0]
        elif event == "open" and not (given[2] or 0) & os.O_WRONLY:
            kind, path = "read", given[0]
        else:
            return
        if not isinstance(path, str | bytes | os.PathLike):  # a descriptor
            return
        name = os.path.abspath(os.fsdecode(path))
        if not name.startswith(start):
            return
        name = name.removeprefix(start)
        if kind == "named" and stops_at and re.search(stops_at[0], name):
            seen += 1
            if seen == stops_at[1]:
                os._exit(9)
        events.append((kind, name))

    sys.addaudithook(hook)


def impose(conditions: Conditions) -> None:
    """Put this process under its conditions."""
    if conditions.limit is not None:
        limits = (conditions.limit, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    calls["fails_at"] = conditions.fails_at
    if conditions.clock:
        forward = ("monotonic", "perf_counter") if conditions.days > 0 else ()
        for name in ("time", *forward):
            setattr(time, name, _jumping(getattr(time, name), conditions))
        seconds = time.time
        time.time_ns = lambda: int(1e9 * seconds())


def _jumping(clock: Callable[[], float], conditions: Conditions) -> Any:
    def now() -> float:
        calls["clock"] += 1
        jumped = calls["clock"] >= conditions.clock
        return clock() + (DAY_S * conditions.days if jumped else 0.0)

    return now


class Runs:
    """The command that a case gives."""

    def prepare(self) -> None:
        """Import what children use, so that each takes its own time alone."""
        import matplotlib.backends.backend_svg  # noqa: F401
        import matplotlib.figure  # noqa: F401

        import keras_msd.recipes.prepare
        import keras_msd.recipes.runner  # noqa: F401
        import keras_msd.report.charts  # noqa: F401
        from keras_msd.teachers import TEACHERS
        from keras_msd.teachers.teacher import HashedWords

        class CountedWords(HashedWords):
            def encode(self, texts: Iterable[str]) -> Any:
                calls["teacher"] += 1
                if calls["teacher"] == calls.get("fails_at"):
                    raise RuntimeError(FAILED)
                return super().encode(texts)

        TEACHERS[SMALL["teacher.source"]] = CountedWords
        gc.freeze()

    def go_on(
        self,
        place: Path,
        seed: int = 0,
        store: str = "store",
        repair: bool = False,
        always: bool = False,
    ) -> int:
        """Give the command that begins a run, or goes on with it.

        Args:
            place: Parent of the run and of its store.
            seed: Of recipe and data.
            store: Name of the store.
            repair: With `--repair`.
            always: A checkpoint after every update.
        """
        import tensorflow as tf

        settings = SMALL | {"recipe.seed": seed, "data.seed": seed}
        words = ["run", RECIPE, "--scale", SCALE, "--out", str(place / "run")]
        words += ["--store", str(place / store), *(["--repair"] if repair else [])]
        words += ["--checkpoint-minutes", "0"] if always else []
        for key, value in settings.items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        # Tracing graphs takes longer than a few tiny steps do.
        tf.config.run_functions_eagerly(True)
        return _explained(lambda: _app(words))


def _explained(work: Callable[[], Any]) -> int:
    """Do what `keras_msd.cli.main` does with errors."""
    from keras_msd.checks import InputError

    try:
        work()
    except (InputError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _app(words: list[str]) -> None:
    from keras_msd.cli import app

    app(args=words, prog_name="keras-msd", standalone_mode=False)
