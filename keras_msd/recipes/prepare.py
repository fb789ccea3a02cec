"""The steps before the stages: data, tokenizer, closed forms, untrained encoders.

First `check`: what can be wrong with a run and is known before its hours of work.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, one_of
from keras_msd.choices import SIDES
from keras_msd.data.batches import check_reads, guide_rows
from keras_msd.data.corpora import write_examples
from keras_msd.evaluate.rows import check_evaluation_files, check_registered
from keras_msd.models.encoder import new_encoder
from keras_msd.models.student import (
    ROWS,
    build_student,
    merge_projection,
    thin_deep,
    unit_repeats,
)
from keras_msd.models.trim import trim_vocabulary, trimming_report
from keras_msd.recipes.resources import Run, check_corpora
from keras_msd.recipes.settings import StudentSettings
from keras_msd.recipes.train import stage_data
from keras_msd.stages.settings import (
    PairStageSettings,
    ReductionSettings,
    StudentVectors,
    TeacherVectors,
)
from keras_msd.stages.stage import TEACHER
from keras_msd.stages.table import STAGES
from keras_msd.starts import closed_form as linear
from keras_msd.starts import dimension_reduction as reduction
from keras_msd.starts import width as pruning
from keras_msd.starts.depth import choose_layers
from keras_msd.tokenizers.sentencepiece import train_unigram

# Rows of a closed form's word table: the matrix that is solved has as many rows and
# columns, in float32 6.4 GB at this size.
MOST_PIECES = 40_000
ROTATED = 12_000  # pairs of each two languages that decide a rotation
DEPTH_TEXTS = 512  # sentences that decide which layers stay
FROM_ASSISTANT = {"svd": "SVD", "ordered": "ordered"}  # starts from its table, by name


def check(run: Run) -> None:
    """Check files, vocabulary and dimensions.

    Raises:
        InputError: A file is missing, the teacher does not read a language, the
            vocabulary is too large for a ridge regression, two dimensions differ, or a
            unit does not fit the assistant's depth.
    """
    if run.recipe.data.kind == "folder":
        _check_data(run)
    else:
        check_registered(run.recipe.settings())
    if run.recipe.assistant.source == "none":
        _check_thin_deep(run)
    else:
        _check_assistant(run)
    _check_vocabulary(run)


def _check_data(run: Run) -> None:
    files = run.training_pairs()  # each language and corpus is there
    if run.recipe.evaluate.artefacts:  # they are timed on held-out sentences
        run.development_pairs()
    check_evaluation_files(run.recipe.settings(), run.data_dir)
    check_corpora("data.weights", [*(run.recipe.data.weights or {})], files)
    guides = {("source", run.teacher), (run.target_side, run.teacher)}
    for name, settings in run.recipe.stages_in_use():
        stage_data(run, name, settings).check_files()
        for guide, side in run.guides_of(settings).values():
            guides |= {(side, part) for part in run.guide_parts[guide]}
    for file in files:
        for side, guide in guides:
            check_reads(guide, side, file)


def _check_vocabulary(run: Run) -> None:
    recipe, source = run.recipe, run.recipe.teacher.source
    if recipe.tokenizer_source == "teacher" and run.teacher_encoder is None:
        raise InputError(
            "Without an assistant and `tokenizer.vocabulary_size` a recipe needs a "
            'teacher whose tokenizer can be read: "default", the folder of an encoder '
            f'or hf://. Received: teacher.source="{source}". Take such a teacher, or '
            "set `tokenizer.vocabulary_size`."
        )
    if run.pieces <= MOST_PIECES or not recipe.fits_table:
        return
    rule = (
        f"ridge regression takes at most {MOST_PIECES:,} pieces, as memory grows with "
        f"their square. Received: {run.pieces:,}."
    )
    if recipe.begins_at_table:
        raise InputError(
            f"A start by {rule} Give `assistant.trim.pieces`, a smaller "
            "`tokenizer.vocabulary_size`, or another `start`."
        )
    print(f"No closed forms: {rule}", file=sys.stderr)


def _check_thin_deep(run: Run) -> None:
    dim = run.teacher.dim
    for name, student in run.recipe.student.each().items():
        hidden = thin_deep_shape(student).get("hidden_dim")
        if student.start == "ridge" and not (hidden and hidden <= dim):
            raise InputError(
                'A closed-form start, `start = "ridge"`, has at most the teacher\'s '
                f"dimension, {dim}. Received: {name} of width {hidden}. Set "
                '`student.hidden_dim`, or `start = "random"`.'
            )


def _check_assistant(run: Run) -> None:
    """Check the assistant against the teacher, and the students against it."""
    settings, teacher = run.recipe.assistant, run.teacher
    existing: Any = run.named_assistant
    shape: Any = existing.config if existing else settings
    own = settings.projection_dim or settings.hidden_dim or teacher.dim
    dim = shape.dim if existing else own
    if teacher.dim != dim:
        raise InputError(
            "Teacher and assistant must have the same dimension, as one imitates the "
            f"other's embeddings. Received: teacher `{run.recipe.teacher.source}` "
            f"{teacher.dim}, assistant `{settings.source}` {dim}. Set "
            f"`assistant.projection_dim = {teacher.dim}`, or take a teacher of "
            f"dimension {dim}."
        )
    repeated = existing.config.repeats if existing else 1
    for student in run.recipe.student.each().values():
        repeats = student.repeats or (1 if student.measured else None)
        unit_repeats(student.unit_layers, repeats, shape.num_layers, repeated)
        pruning.check_kept(shape, student.pruned)


def write_example_data(run: Run, folder: Path) -> None:
    """Write the example sentences in the layout of a data folder.

    What is held out is no larger than what is trained on.
    """
    settings = run.recipe.data
    write_examples(
        folder / "data",
        languages=settings.languages,
        pairs=settings.pairs_per_language,
        rows=settings.pairs_per_language,
        train_rows=settings.sts_train_rows,
        inference_rows=settings.nli_rows or 0,
    )


def take_pairs(run: Run, folder: Path) -> dict[str, Any]:
    """Filter, deduplicate and limit the pairs that the run trains on."""
    data = run.recipe.data
    table = run.build_texts(
        run.training_pairs(),
        folder / "texts",
        limit_per_file=data.pairs_per_file,
        limit_per_language=data.pairs_per_language,
        dirty_rows=data.dirty_rows,
    )
    return {"pairs": len(table), "counts": table.counts, "key": table.key}


def take_vectors(run: Run, folder: Path, guide: str | None) -> dict[str, Any]:
    """Store the vectors of the teacher, or of the one in `[guides.<guide>]`.

    It embeds every source line that is learnt from, and the translations too if it is
    multilingual.
    """
    recipe = run.recipe
    known: Any = recipe.guides[guide] if guide else recipe.teacher
    teacher = run.guide(guide) if guide else run.teacher
    store = run.store(teacher)
    for table in _learnt(run, guide):
        for side in SIDES if known.multilingual else ("source",):
            texts = (text for chunk in table.chunks(side) for text in chunk)
            store.build(texts, total=len(table))
    return {"fingerprint": teacher.fingerprint, "dim": teacher.dim}


def _learnt(run: Run, guide: str | None) -> list[Any]:
    """Return the pairs that a guide's vectors are needed of.

    Those are the pairs of the stages that have it as a target; of the teacher all pairs
    if it also makes a word table, or is reduced.
    """
    recipe = run.recipe
    if not guide and (recipe.fits_table or recipe.reduction.widths):
        return [run.texts]
    wanted = guide or TEACHER
    tables = {}
    for name, stage in recipe.stages_in_use():
        if isinstance(stage, PairStageSettings):
            own: Any = run.guides_of(stage) if guide else STAGES[name].guides
            if wanted in {of for of, _ in own.values()}:
                table = run.texts_of(stage)
                tables[table.folder] = table
    return [*tables.values()]


def trim(run: Run, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Trim the vocabulary of the assistant that exists to the tokens of the pairs.

    Args:
        run: The run.
        folder: The step's folder.
        settings: `keep` of `trim_vocabulary`.
    """
    encoder: Any = run.named_assistant

    def texts() -> Iterator[str]:
        return chain.from_iterable(both_sides(run))

    trimmed = trim_vocabulary(encoder, texts(), **settings)
    trimmed.save(folder / "encoder")
    return trimming_report(encoder, trimmed, texts())


def take_tokenizer(run: Run, folder: Path) -> dict[str, Any]:
    """Train a vocabulary on both sides of the pairs, or take one that exists."""
    settings = run.recipe.tokenizer
    if settings.vocabulary_size is not None:
        texts = chain.from_iterable(both_sides(run))
        size, fold = settings.vocabulary_size, settings.case_fold
        tokenizer: Any = train_unigram(texts, size, case_fold=fold)
    else:
        of_teacher = run.recipe.tokenizer_source == "teacher"
        owner: Any = run.teacher_encoder if of_teacher else run.given_assistant
        tokenizer = owner.tokenizer
    tokenizer.save(folder / "tokenizer")
    counts = linear.token_frequencies(
        token_lists(run, tokenizer), tokenizer.vocabulary_size
    )
    np.save(folder / "frequencies.npy", counts)
    return {"fingerprint": tokenizer.fingerprint, "tokens": int(counts.sum())}


def both_sides(run: Run) -> Iterator[list[str]]:
    """Yield all source lines, then all translations, in chunks."""
    for side in SIDES:
        yield from run.texts.chunks(side)


def token_lists(run: Run, tokenizer: Any) -> Iterator[list[int]]:
    """Yield the token ids of each line that `both_sides` has."""
    for chunk in both_sides(run):
        yield from tokenizer.encode_plain(chunk)


def fit_table(run: Run, folder: Path, ridge: float) -> None:
    """Fit the word table whose rows add up to the teacher's vectors."""
    store, dim = run.store(run.teacher), run.teacher.dim

    def rows(start: int, stop: int) -> np.ndarray:
        return store.targets(run.texts.texts("source", start, stop))

    table = linear.fit_ridge(
        token_lists(run, run.tokenizer),
        linear.BothSides(rows, len(run.texts), dim),
        run.tokenizer.vocabulary_size,
        ridge,
    )
    np.save(folder / "table.npy", table)


def closed_form(run: Run, folder: Path, width: int | None) -> None:
    """Keep the closed form, at full width or through a bottleneck."""
    tokenizer, max_length = run.tokenizer, run.recipe.data.max_length
    parts = _narrowed(run, run.array("ridge", "table"), width)
    encoder = linear.closed_form_encoder(tokenizer, *parts, max_length=max_length)
    encoder.save(folder / "encoder")


def start_assistant(run: Run, folder: Path) -> None:
    """Write the assistant before any training."""
    make_assistant(run).save(folder / "encoder")


def make_assistant(run: Run) -> Any:
    """Return the encoder that the recipe names, or a new one with its start."""
    if run.recipe.assistant.exists:
        return run.given_assistant
    if run.recipe.assistant.start == "ridge":
        return _over_table(run, run.array("ridge", "table"))
    return new_encoder(run.tokenizer, **_fields(run))


def weigh_rows(run: Run, folder: Path, step: str, smoothing: float) -> None:
    """Weigh the rows of the word table that a step left by their pieces' frequency.

    All pairs of languages count alike, however many pairs of sentences each has. The
    tokens around a sentence count as its pieces do: a sentence's mean has them, too.
    """
    encoder, texts = run.encoder(step), run.texts
    rows = run.tokenizer.vocabulary_size
    counts: dict[tuple[str, str], np.ndarray] = {}
    for file in texts.files:
        of = counts.setdefault((file.source_language, file.language), np.zeros(rows))
        for side in SIDES:
            lines = texts.texts(side, file.start, file.stop)
            of += linear.token_frequencies(run.tokenizer.encode(lines), rows)
    shares = [of / of.sum() for of in counts.values()]
    linear.weigh_rows(encoder, np.mean(shares, axis=0), smoothing)
    encoder.save(folder / "encoder")


def order_dimensions(
    run: Run, folder: Path, step: str, dims: tuple[int, ...]
) -> dict[str, Any]:
    """Turn the vectors of the encoder that a step left, so that prefixes say most."""
    encoder, draw = run.encoder(step), np.random.default_rng(run.seed("dimensions"))
    vectors = partial(encoder.encode, normalize=True)
    matrix, count = _ordering(run.texts, vectors, dims, draw)
    merge_projection(encoder, matrix).save(folder / "encoder")
    return {"pairs": count}


def _ordering(
    texts: Any, vectors: Any, dims: Sequence[int], draw: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return `order_dimensions` of vectors of pairs, and how many pairs it saw."""
    rows = pairs_of_languages(texts, ROTATED, draw)
    lines = read_rows(texts, "source", rows)
    matrix = reduction.order_dimensions(
        vectors(lines),
        vectors(read_rows(texts, "target", rows)),
        dims,
        np.unique(lines, return_inverse=True)[1],
        batch_size=min(1024, len(rows)),
    )
    return matrix, len(rows)


def pairs_of_languages(texts: Any, each: int, draw: np.random.Generator) -> np.ndarray:
    """Return rows of at most `each` pairs of every two languages, in rising order."""
    of: dict[tuple[str, str], list[np.ndarray]] = {}
    for file in texts.files:
        rows = of.setdefault((file.source_language, file.language), [])
        rows.append(np.arange(file.start, file.stop))
    every = map(np.concatenate, of.values())
    some = (draw.choice(rows, min(each, len(rows)), replace=False) for rows in every)
    return np.sort(np.concatenate(list(some)))


def read_rows(texts: Any, side: str, rows: np.ndarray) -> list[str]:
    """Return the sentences of one side in some rows."""
    return [text for row in rows for text in texts.texts(side, row, row + 1)]


def prune_width(
    run: Run, folder: Path, assistant: str, count: int, **kept: int
) -> dict[str, Any]:
    """Remove heads and neurons from the assistant that the step `assistant` left."""
    draw = np.random.default_rng(run.seed("pruned"))
    lines = lines_of_languages(run.texts, count, draw)
    pruning.prune_width(run.encoder(assistant), lines, **kept).save(folder / "encoder")
    return {"texts": len(lines)}


def lines_of_languages(texts: Any, count: int, draw: np.random.Generator) -> list[str]:
    """Return sentences of either side of the pairs, equally many of each language.

    Args:
        texts: The pairs.
        count: How many sentences, in all; rounded down to a multiple of the languages.
        draw: Chooses them.
    """
    of: dict[str, list[tuple[str, range]]] = {}
    for file in texts.files:
        rows = range(file.start, file.stop)
        sides = {"source": file.source_language, "target": file.language}
        for side, language in sides.items():
            of.setdefault(language, []).append((side, rows))
    each, chosen = max(count // len(of), 1), []
    for spans in of.values():
        ends = np.cumsum([len(rows) for _, rows in spans])
        for place in draw.choice(ends[-1], min(each, ends[-1]), replace=False):
            span = np.searchsorted(ends, place, side="right")
            side, rows = spans[span]
            chosen.append((side, rows[place - ends[span]]))
    return [text for side, row in chosen for text in texts.texts(side, row, row + 1)]


def keep_layers(run: Run, folder: Path, assistant: str, count: int) -> dict[str, Any]:
    """Remove all layers but the `count` that the assistant's embeddings need most."""
    encoder, draw = run.encoder(assistant), np.random.default_rng(run.seed("shallow"))
    lines = lines_of_languages(run.texts, DEPTH_TEXTS, draw)
    layers = choose_layers(encoder, lines, count)
    shallow = build_student(encoder, count, None, repeats=1, unit_from=layers)
    shallow.save(folder / "encoder")
    return {"layers": layers, "texts": len(lines)}


def untrained_student(
    run: Run, folder: Path, assistant: str, start: str, **shape: Any
) -> None:
    """Build a student from the assistant that the step `assistant` left."""
    tables = "random" if start in FROM_ASSISTANT else start
    student = build_student(run.encoder(assistant), tables=tables, **shape)
    student.save(folder / "encoder")


def start_student(
    run: Run, folder: Path, student: str, assistant: str, start: str
) -> None:
    """Initialize a student's embedding block from its assistant's.

    "svd" takes the best factorisation of the assistant's table; "ordered" the
    directions of that table in which means of word rows best tell which sentences are
    translations.
    """
    encoder, larger = run.encoder(student), run.encoder(assistant)
    directions = None
    if start == "ordered":
        draw = np.random.default_rng(run.seed("student_start"))
        table = linear.word_rows(larger.weights())
        width: Any = encoder.config.bottleneck_dim

        def vectors(lines: list[str]) -> np.ndarray:
            return linear.mean_rows(table, run.tokenizer.encode(lines))

        matrix, _ = _ordering(run.texts, vectors, [width], draw)
        directions = matrix[:, :width]
    linear.start_student(encoder, larger, run.frequencies, directions)
    encoder.save(folder / "encoder")


def refit_layers(
    run: Run, folder: Path, student: str, assistant: str, count: int
) -> dict[str, Any]:
    """Refit a student's layers to the assistant that they were copied from."""
    encoder, draw = run.encoder(student), np.random.default_rng(run.seed("refitted"))
    lines = lines_of_languages(run.texts, count, draw)
    pruning.refit_layers(encoder, run.encoder(assistant), lines)
    encoder.save(folder / "encoder")
    return {"texts": len(lines)}


def thin_deep_student(
    run: Run,
    folder: Path,
    shape: dict[str, Any],
    output_dim: int | None = None,
    ridge: bool = False,
) -> None:
    """Make a thin, deep student with random weights, or one that begins as closed form.

    In the closed form word rows are the SVD of the ridge table, and the body begins as
    the identity. The start token would then hold no word of its sentence: the embedding
    is the mean of all tokens through a dense layer that is linear and at first keeps
    cosines as they are.

    Args:
        run: The run.
        folder: The step's folder.
        shape: As `thin_deep_shape` returns it.
        output_dim: Makes its dense layer linear, with this output dimension.
        ridge: Whether it begins as the closed form.
    """
    fields = {"max_length": run.recipe.data.max_length, **shape}
    if ridge:
        fields = {"pooling": "mean", **linear.IDENTITY, **fields}
    if ridge or output_dim is not None:
        fields["projection_dim"] = output_dim or shape["hidden_dim"]
        fields["projection_activation"] = "linear"
    encoder = thin_deep(run.tokenizer, row=None, **fields)
    if ridge:
        table, hidden = run.array("ridge", "table"), shape["hidden_dim"]
        word, projection = linear.bottleneck(table, hidden, run.frequencies)
        kernel = np.eye(hidden, dtype=np.float32) if output_dim is None else projection
        values = {"embedding/word": word, "projection/kernel": kernel}
        linear.set_closed_form(encoder, values)
    encoder.save(folder / "encoder")


def thin_deep_shape(settings: StudentSettings) -> dict[str, Any]:
    """Return the fields of a student's row, changed by those that it names."""
    shape: dict[str, Any] = {}
    if settings.row is not None:
        one_of(ROWS, row=settings.row)
        shape = ROWS[settings.row]._asdict()
    names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim", "dropout")
    return shape | settings.model_dump(include={*names}, exclude_none=True)


def reduce_teacher(
    run: Run, folder: Path, settings: ReductionSettings, width: int
) -> dict[str, Any]:
    """Fit a dense layer after the teacher; write `reduction.npy`."""
    matrix = settings.matrix(_teacher_vectors(run, run.table(), width))
    np.save(folder / "reduction.npy", matrix)
    return {"dim": width}


def extra_array(run: Run, folder: Path, name: str, settings: Any, step: str) -> None:
    """Make the array that a stage needs, see `ExtraStep`.

    Args:
        run: The run.
        folder: The step's folder; gets the array under the extra step's name.
        name: Name of the stage.
        settings: The stage's.
        step: Step that left the encoder to train.
    """
    extra: Any = STAGES[name].extra_step(settings)
    encoder, table = run.encoder(step), run.table(settings)

    def vectors(rows: np.ndarray) -> np.ndarray:
        texts = [read_rows(table.texts, side, rows) for side in SIDES]
        return encoder.encode([*chain(*texts)])

    teacher = _teacher_vectors(run, table, encoder.dim)
    student = StudentVectors(encoder, vectors)
    np.save(folder / f"{extra.name}.npy", extra.make(teacher, student))


def _teacher_vectors(run: Run, table: Any, dim: int) -> TeacherVectors:
    store = run.store(run.teacher)
    return TeacherVectors(
        StoredVectors(table, store, "source"),
        StoredVectors(table, store, run.target_side),
        table.groups(np.arange(len(table))),
        dim,
        run.seed("reduce_teacher"),
    )


class StoredVectors:
    """A guide's vectors of one side of the pairs, read as they are needed."""

    def __init__(self, table: Any, store: Any, side: str) -> None:
        self._store, self._where = store, guide_rows(table, store, side)
        self.shape = (len(self._where), store.dim)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return self._store.vectors(self._where[rows])


def _narrowed(run: Run, table: np.ndarray, width: int | None) -> tuple[Any, ...]:
    """Return a word table; with a width a narrower one, and what projects it back."""
    return (
        (table,) if width is None else linear.bottleneck(table, width, run.frequencies)
    )


def _fields(run: Run) -> dict[str, Any]:
    fields = run.recipe.assistant.model_dump(
        exclude={"source", "start", "trim"}, exclude_none=True
    )
    return fields | {"max_length": run.recipe.data.max_length}


def _over_table(run: Run, table: np.ndarray) -> Any:
    """Return a word table under a body that begins as the identity.

    A body narrower than the embeddings takes the table's SVD: its rows under the body,
    the projection after it.
    """
    fields, dim = _fields(run), run.teacher.dim
    hidden = fields.pop("hidden_dim", dim)
    width = fields.pop("bottleneck_dim", None)
    if hidden == dim:
        parts = _narrowed(run, table, width)
        return linear.closed_form_encoder(run.tokenizer, *parts, **fields)
    if width is not None:
        raise InputError(
            "An assistant that starts from a table has a bottleneck or a body narrower "
            f"than the teacher, not both. Received: bottleneck_dim={width}, "
            f"hidden_dim={hidden}, teacher {dim}. Leave the first out."
        )
    word, projection = linear.bottleneck(table, hidden, run.frequencies)
    fields["projection_bias"] = False
    encoder = linear.closed_form_encoder(run.tokenizer, word, **fields)
    values = encoder.weights() | {"projection/kernel": projection}
    encoder.set_weights(values, origin="the start")
    return encoder
