"""What the steps of one run share; each part is loaded when it is first asked for."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.choices import Precision
from keras_msd.data.pair import ENGLISH, Cleaning, PairFile, Pairs, language_pair
from keras_msd.data.readers import read_pairs
from keras_msd.data.readers.lines import PAIR, languages_of, unpacked
from keras_msd.data.store import GuideStore
from keras_msd.data.tables import PairTable, TextTable
from keras_msd.distribute import Distribution
from keras_msd.evaluate.rows import evaluation_files
from keras_msd.io.files import digest, read_json, write_json
from keras_msd.load import load_teacher, open_encoder, teacher_encoder
from keras_msd.models.average import average_weights
from keras_msd.models.encoder import Encoder, load_saved
from keras_msd.models.trim import restore_vocabulary
from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.settings import OF_EXISTING, OF_TARGET, Recipe
from keras_msd.stages.settings import PairStageSettings
from keras_msd.teachers.teacher import JointTeacher
from keras_msd.tokenizers.loading import load_tokenizer
from keras_msd.training.profile import faster_precision

TRIMMED = "assistant_trimmed"  # the step of `[assistant.trim]`
PRECISION = "precision.json"  # what "auto" was measured to be when the run began
LAYOUT = "2"  # of what the cache holds: older versions have folders of their own


def default_store_dir() -> Path:
    """Return a folder in `$KERAS_MSD_CACHE`, else in the user's cache."""
    folder = os.environ.get("KERAS_MSD_CACHE")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder or f"{cache}/keras_msd").expanduser() / LAYOUT


@dataclass
class Run:
    """A recipe at work in a folder.

    Attributes:
        recipe: What to do.
        folder: Where its steps leave their files.
        given_data: The data folders, for recipes that read any; evaluation sets and
            held-out pairs are in the first.
        store_dir: Parent of the embedding caches.
        checkpoint_minutes: Time between two checkpoints of a stage.
        profile: Whether stages report what their time went into.
        tensorboard: Whether stages write events for TensorBoard.
        distribution: Which devices and processes train a stage.
    """

    recipe: Recipe
    folder: RunFolder
    given_data: Sequence[Path]
    store_dir: Path
    checkpoint_minutes: float = 5.0
    profile: bool = False
    tensorboard: bool = False
    distribution: Distribution = Distribution()

    @cached_property
    def precision(self) -> Precision:
        """What stages compute in: as the run began, where that was measured."""
        if self.recipe.precision != "auto":
            return self.recipe.precision
        measured = self.folder.path / PRECISION
        if not measured.is_file():
            write_json(measured, faster_precision())
        found: Precision = read_json(measured)
        return found

    @property
    def data_dir(self) -> Path:
        """The folder with `parallel/`, `sts/`, `tatoeba/`."""
        return self.data_dirs[0]

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """That folder, and others with `parallel/train/`, perhaps `lexicon/`."""
        if self.recipe.data.kind == "examples":
            return (self.folder.step("example_data") / "data",)
        if not self.given_data:
            raise InputError(
                f"The recipe `{self.recipe.recipe.name}` at scale {self.recipe.scale} "
                "reads a data folder. Received: none. Give `data_dir` (`--data`): a "
                "folder with parallel/train/<corpus>.en-<xx>.tsv.gz (or another "
                "format), parallel/dev/, sts/ and tatoeba/."
            )
        return tuple(self.given_data)

    def training_pairs(self) -> list[PairFile]:
        """Return the recipe's corpora, language after language.

        Those of parallel/train/, all where the recipe names none; and those of
        lexicon/, words and short phrases, that it names.

        Raises:
            InputError: A folder, a language or a corpus is not there, or two folders
                have a file of the same name.
        """
        corpora = self.recipe.data.corpora
        folders = [folder / "parallel" / "train" for folder in self.data_dirs]
        lexicons = [folder / "lexicon" for folder in self.data_dirs if corpora]
        folders += filter(Path.is_dir, lexicons)
        return _pairs(self.recipe, folders, corpora)

    def development_pairs(self) -> list[PairFile]:
        """Return the held-out pairs of the recipe's languages, whatever their corpus.

        Raises:
            InputError: The folder or a language is not there.
        """
        return _pairs(self.recipe, [self.data_dir / "parallel" / "dev"])

    def training_files(self) -> list[Path]:
        """Return the paths of the recipe's corpora, each once."""
        paths = (path for file in self.training_pairs() for path in file.paths)
        return list(dict.fromkeys(paths))

    def evaluation_files(self) -> list[Path]:
        """Return the files that scoring reads."""
        return evaluation_files(self.recipe.settings(), self.data_dir)

    @property
    def target_side(self) -> str:
        """The side whose teacher's vectors stand for translations.

        What only knows English stands for both sides with its English vector.
        """
        return "target" if self.recipe.teacher.multilingual else "source"

    @cached_property
    def teacher_encoder(self) -> Any | None:
        """The teacher as an `Encoder` of ours, None where it is no such model."""
        settings = self.recipe.teacher
        return teacher_encoder(settings.source, settings.pooling)

    def seed(self, name: str) -> int:
        """Return a step's seed: a hash of the recipe's seed and the step's name."""
        return int(digest(str(self.recipe.recipe.seed), name)[:8], 16) % 2**31

    @cached_property
    def teacher(self) -> Any:
        """The teacher."""
        settings = self.recipe.teacher
        given = settings.model_dump(include={"source", "dim", "pooling", "prompt"})
        languages = None if settings.multilingual else (ENGLISH,)
        return load_teacher(**given, languages=languages)

    @cached_property
    def guide_parts(self) -> dict[str, list[Any]]:
        """The teachers that each of `[guides]` is made of."""
        return {
            name: [
                load_teacher(it, languages=None if guide.multilingual else (ENGLISH,))
                for it in guide.sources
            ]
            for name, guide in self.recipe.guides.items()
        }

    def guide(self, name: str) -> Any:
        """Return the teacher of `[guides.<name>]`; the training pairs must be there.

        The vectors of its parts are kept, too: a model that is also the run's teacher,
        or part of another guide, encodes a sentence once.
        """
        settings, parts = self.recipe.guides[name], self.guide_parts[name]
        if len(parts) == 1 and not settings.weights and not settings.center:
            return parts[0]
        center = None
        if settings.center:
            rows = np.linspace(0, len(self.texts) - 1, settings.center, dtype=np.int64)
            center = [self.texts.texts("source", row, row + 1)[0] for row in rows]
        stored = [self.store(part) for part in parts]
        return JointTeacher(stored, settings.weights or None, center)

    def guides_of(self, settings: Any) -> dict[str, tuple[str, str]]:
        """Return which of `[guides]` a stage's terms name, but for those of weight 0.

        Returns:
            Target -> (name of the guide, "source" or "target").
        """
        known: dict[str, tuple[str, str]] = {}
        for name in self.recipe.guides:
            known |= {name: (name, "source"), name + OF_TARGET: (name, "target")}
        named = settings.compared & known.keys()
        return {target: known[target] for target in sorted(named)}

    @cached_property
    def named_assistant(self) -> Any | None:
        """The assistant that the recipe names, changed as it says; None if it is new.

        Raises:
            InputError: It is no encoder with weights, or has fewer layers than asked.
        """
        settings = self.recipe.assistant
        if not settings.exists:
            return None
        source = settings.source
        encoder = open_encoder(source, settings.pooling)
        if not isinstance(encoder, Encoder):
            raise InputError(
                "An assistant must have weights that can be trained and copied. "
                f"Received: `{source}`, an artefact. Give the encoder's folder."
            )
        if settings.vocabulary:
            encoder = restore_vocabulary(encoder, open_encoder(settings.vocabulary))
        if settings.average:
            other = open_encoder(settings.average.source)
            encoder = average_weights(encoder, other, settings.average.share)
        changes = settings.model_dump(include={*OF_EXISTING}, exclude_none=True)
        if not changes:
            return encoder
        if changes.get("num_layers", 0) > encoder.config.num_layers:
            raise InputError(
                "`assistant.num_layers` keeps the first layers of an encoder that "
                f"exists. Received: {settings.num_layers}, and `{source}` has "
                f"{encoder.config.num_layers}. Lower it, or leave it out."
            )
        changed = encoder.with_config(origin="[assistant]", **changes)
        weights = encoder.weights()
        changed.set_weights({path: weights[path] for path in changed.weights()})
        return changed

    @cached_property
    def given_assistant(self) -> Any | None:
        """That assistant with the vocabulary that `[assistant.trim]` leaves it."""
        trim = self.recipe.assistant.trim
        return self.encoder(TRIMMED) if trim else self.named_assistant

    @property
    def pieces(self) -> int:
        """Rows of a closed form's word table, known before any work."""
        size, trim = self.recipe.tokenizer.vocabulary_size, self.recipe.assistant.trim
        if size is not None:
            return size
        of_teacher = self.recipe.tokenizer_source == "teacher"
        owner = self.teacher_encoder if of_teacher else self.named_assistant
        size = owner.tokenizer.vocabulary_size if owner else 0
        return min(size, trim.pieces) if trim else size

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the assistant and of all students."""
        return load_tokenizer(self.folder.step("tokenizer") / "tokenizer")

    @cached_property
    def texts(self) -> Any:
        """All training pairs: a `TextTable`."""
        return TextTable.open(self.folder.step("pairs") / "texts")

    def texts_of(self, stage: PairStageSettings | None = None) -> Any:
        """Return the training pairs of a stage: all, or those it limits itself to."""
        if stage is None:
            return self.texts
        corpora, limit = stage.corpora, stage.pairs_per_language
        if not corpora and limit is None:
            return self.texts
        files = self.texts.pairs().files
        files = [it for it in files if not corpora or corpus_of(it.name) in corpora]
        name = f"texts-{digest(*sorted(corpora), str(limit))}"
        folder = self.folder.step("pairs") / name
        return self.build_texts(files, folder, limit_per_language=limit)

    def build_texts(
        self, files: Sequence[PairFile], folder: Path, **limits: int | None
    ) -> TextTable:
        """Filter, deduplicate and limit pairs as the recipe says."""
        data = self.recipe.data
        words = {} if data.max_words is None else {"max_words": data.max_words}
        return TextTable.build(
            Pairs(files),
            folder,
            cleaning=Cleaning(max_chars=data.max_characters, **words),
            seed=data.seed,
            temperature=data.temperature,
            **limits,
        )

    def table(self, stage: PairStageSettings | None = None) -> PairTable:
        """Return the token ids of a stage's pairs, or of all."""
        texts = self.texts_of(stage)
        return PairTable.build(
            texts,
            self.tokenizer,
            self.folder.step("tokenizer") / f"tokens-{texts.folder.name}",
            max_length=self.recipe.data.max_length,
        )

    def store(self, guide: Any) -> GuideStore:
        """Return the cache of a guide's embeddings."""
        return GuideStore(guide, self.store_dir / guide.fingerprint)

    @cached_property
    def frequencies(self) -> np.ndarray:
        """How often each piece occurs in the pairs: int64 `(vocabulary_size,)`."""
        return self.array("tokenizer", "frequencies")

    def array(self, step: str, name: str) -> np.ndarray:
        """Load an array that a step left."""
        return np.load(self.folder.step(step) / f"{name}.npy")

    def encoder(self, step: str | None) -> Encoder:
        """Load the encoder that a step left."""
        return load_saved(self.folder.step(str(step)) / "encoder")


def corpus_of(name: str) -> str:
    """Return the corpus in the name of a `PairFile`: `x` of `x.en-de.tsv.gz`."""
    stem = unpacked(Path(name)).stem
    match = PAIR.search(stem)
    return stem[: match.start()] if match and languages_of(Path(name)) else stem


def check_corpora(key: str, names: Sequence[str], files: Iterable[Any]) -> None:
    """Raise `InputError` naming the corpora that no file is of.

    Args:
        key: The setting that names them.
        names: Their names.
        files: Those that there are; each has a `name`.
    """
    known = [corpus_of(file.name) for file in files]
    for name in names:
        if name not in known:
            there = ", ".join(sorted(set(known))) or "none"
            hint = nearest(name, known) or f"Add its files, or change `{key}`."
            raise InputError(
                f"Every corpus of `{key}` must be there in some language. Received: "
                f"`{name}`; there are {there}. {hint}"
            )


def _pairs(
    recipe: Recipe, folders: Sequence[Path], corpora: Sequence[str] = ()
) -> list[PairFile]:
    places = [existing_folder(folder, "folder of parallel files") for folder in folders]
    found = read_pairs(places).files
    known: dict[str, Path] = {}
    for path in (path for file in found for path in file.paths):
        # Draws, limits and messages go by names.
        if known.setdefault(path.name, path) != path:
            raise InputError(
                "Parallel files of several folders must differ in their names. "
                f"Received: `{known[path.name]}` and `{path}`. Rename one, or give one "
                "folder."
            )
    asked = {language_pair(code): code for code in recipe.data.languages}
    files = [it for pair in asked for it in found if it.languages == pair]
    if corpora:
        check_corpora("data.corpora", corpora, files)
        files = [it for it in files if corpus_of(it.name) in corpora]
    there = {file.languages for file in files}
    if absent := [pair for pair in asked if pair not in there]:
        names, codes = corpora or ("<corpus>",), "-".join(absent[0])
        raise InputError(
            f"The recipe `{recipe.recipe.name}` at scale {recipe.scale} needs parallel "
            f"files for {', '.join(f'`{asked[pair]}`' for pair in absent)}, and there "
            f"are none. Looked for: {', '.join(f'{it}.{codes}.tsv.gz' for it in names)}"
            ", or the same in another format, in "
            f"{', '.join(f'`{place}`' for place in places)}. Put one there, or change "
            "`data.languages` or `data.corpora`."
        )
    return files
