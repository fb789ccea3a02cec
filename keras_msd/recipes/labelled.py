"""What the stages on labelled pairs train on, and how one of them is selected."""

from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.data.batches import Batches
from keras_msd.data.pair import languages_of_pairs
from keras_msd.data.scored import (
    InferenceBatches,
    ScoredBatches,
    read_inference,
    read_scored,
)
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.evaluate.parts import CHOOSE, WHOLE
from keras_msd.evaluate.similarity import PIVOT, aligned_part, read_sts, sts
from keras_msd.recipes.resources import Run

TRAIN, DEV = "train", "dev"  # splits


class InferenceRows:
    """Pairs of sentences with labels: the rows of all NLI sets of the stage.

    It has what `PairRows` has.
    """

    made_by: type[Batches] = InferenceBatches
    unit = "rows"
    folder = "nli"
    ends: tuple[str, ...] = (".tsv.gz", ".jsonl.gz", ".tsv", ".jsonl")

    def __init__(self, run: Run, name: str, settings: Any) -> None:
        self.run, self.name, self.settings = run, name, settings
        self.facts: dict[str, Any] = {}

    def sets(self) -> dict[Path, str]:
        """Return the training files, each with its set.

        Raises:
            InputError: A set has none of the stage's languages, or a language no set.
        """
        folder, name = self.run.data_dir / self.folder, f"stages.{self.name}"
        wanted = [*self.settings.sets], self._languages(self.settings.languages)
        found: dict[tuple[str, ...], Path] = {}
        for one, code in product(*wanted):
            paths = (folder / f"{one}.{TRAIN}.{code}{end}" for end in self.ends)
            if path := next(filter(Path.is_file, paths), None):
                found[one, code] = path
        there = {it for names in found for it in names}
        if absent := [it for names in wanted for it in names if it not in there]:
            raise InputError(
                f"`{name}` needs a file of each of its sets, and of each of its "
                f"languages. Received: none of {', '.join(absent)}. Looked for "
                f"`{folder}/<set>.{TRAIN}.<xx>` with {' or '.join(self.ends)}. Put one "
                f"there, or change `{name}.sets` or `.languages`."
            )
        return {path: one for (one, _), path in found.items()}

    def files(self) -> list[Path]:
        """Return the training files."""
        return [*self.sets()]

    def check_files(self) -> None:
        """Raise `InputError` unless the files are there, with rows for a batch."""
        self.steps()

    @cached_property
    def rows(self) -> Any:
        """The rows of all sets."""
        parts = [read_inference(path) for path in self.sets()]
        self.facts = {"rows_skipped": sum(part.skipped for part in parts)}
        return [row for part in parts for row in part.rows]

    def steps(self) -> int:
        """Return the stage's training steps."""
        what = f"rows in {', '.join(f'`{path}`' for path in self.sets())}"
        return int(self.settings.training_steps(self.name, len(self.rows), what))

    def options(self, guides: Any) -> dict[str, Any]:
        """Return nothing: these stages have no guides, and rows are drawn evenly."""
        return {}

    def watch(self, encoder: Any, steps: int, history: dict[str, Any]) -> Any:
        """Return None: nothing is scored on the way."""
        return None

    def _languages(self, named: tuple[str, ...]) -> list[str]:
        of_pairs = languages_of_pairs(self.run.recipe.data.languages)
        return list(dict.fromkeys(named or (PIVOT, *of_pairs)))


class ScoredRows(InferenceRows):
    """Pairs of sentences with gold scores: the rows of all STS sets of the stage."""

    made_by = ScoredBatches
    folder = "sts"
    ends = (".tsv.gz",)

    def files(self) -> list[Path]:
        """Return the training files, and those that choose the weights."""
        return [*self.sets(), *self.dev_files().values()]

    def check_files(self) -> None:
        """Raise `InputError` unless the files are there, with rows for a batch."""
        _ = self.rows, self.dev_rows()  # what is missing is named first
        self.steps()

    @cached_property
    def rows(self) -> Any:
        """The rows of all sets, gold in [0, 1]."""
        scales = self.settings.sets
        files = self.sets().items()
        return [row for path, name in files for row in read_scored(path, scales[name])]

    def watch(self, encoder: Any, steps: int, history: dict[str, Any]) -> Any:
        """Return the callback that chooses the stage's weights."""
        return DevelopmentScores(self, encoder, history)

    def dev_files(self) -> dict[str, Path]:
        """Return the files that choose the weights, by language.

        For a half also the English file, whose sentences decide it.
        """
        whole = self.run.recipe.evaluate.part == WHOLE
        codes = [*([] if whole else [PIVOT]), *self._dev_languages()]
        start = f"{self.settings.dev_set}.{DEV}"
        folder = self.run.data_dir / self.folder
        return {code: folder / f"{start}.{code}.tsv.gz" for code in codes}

    def dev_rows(self) -> dict[str, list[Any]]:
        """Return the rows that select the checkpoint: never the reporting half."""
        rows = {code: read_sts(path) for code, path in self.dev_files().items()}
        if self.run.recipe.evaluate.part != WHOLE:
            rows = aligned_part(rows, CHOOSE)
        return {code: rows[code] for code in self._dev_languages()}

    def _dev_languages(self) -> list[str]:
        settings = self.settings
        return self._languages(settings.dev_languages or settings.languages)


class DevelopmentScores(ScoreCallback):
    """Keeps the weights of `regress_similarity` that score best on development rows.

    Args:
        data: The stage's rows.
        encoder: What is scored.
        history: Gets `dev`: `{"steps": [...], "spearman": [...]}`.
    """

    def __init__(self, data: ScoredRows, encoder: Any, history: dict[str, Any]) -> None:
        settings, dev = data.settings, data.dev_rows().values()

        def score(scored: Any) -> dict[str, Any]:
            found = [sts(scored, rows)["spearman"] for rows in dev]
            mean = round(float(np.mean(found)), 4)
            return {"spearman": mean, "primary": "spearman"}

        every = settings.evaluate_every or len(data.rows) // settings.batch_size
        best = {"best_weights": True, "patience": settings.patience}
        super().__init__(encoder, score, every=every, **best)
        self._history = history

    def last(self) -> dict[str, float]:
        """Return the newest score by its name."""
        return {"dev": self.record[-1]["dev_spearman"]}

    def results(self) -> dict[str, Any]:
        """Return which weights were kept, and the scores before and after."""
        scores = [look["dev_spearman"] for look in self.record]
        steps = [look["step"] for look in self.record]
        self._history["dev"] = {"steps": steps, "spearman": scores}
        best = {"best_step": self.best_step, "dev_best": self.best}
        return best | {"dev_before": scores[0]}
