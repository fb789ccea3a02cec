"""The command `distil`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.choices import MIN_PAIRS, PASSAGE_LENGTH
from keras_msd.cli.output import codes, says_how_to_resume


def distil(
    pairs: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    out: Path,
    max_mb: Annotated[float | None, typer.Option("--max-mb")] = None,
    max_length: int = PASSAGE_LENGTH,
    minutes: float = 10.0,
    text: Annotated[list[Path] | None, typer.Option("--text")] = None,
    languages: Annotated[str | None, typer.Option(metavar="A,B")] = None,
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B")] = None,
    start: str | None = None,
    guard: float = 1.0,
    no_guard: bool = False,
    teacher: str | None = None,
    multilingual: bool = False,
    align: bool = False,
    updates: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    vocabulary_size: int | None = None,
    store: Path | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Make a small encoder for your languages and your size.

    It starts from small12 and multilingual-e5-small, if they are installed, with the
    tokens that your languages need and as many layers as fit; your pairs or texts train
    it. The result is a LiteRT file with its tokenizer. A plan is printed first, a
    report page is written at the end. One sentence in eight is held out for it.

    Example: keras-msd distil pairs.csv --out model --max-mb 16

    Example: keras-msd distil --languages sv,en --out model --max-mb 16

    Args:
        pairs: Pairs: .tsv, .csv (header: source,target or languages), .jsonl, .json,
            .tmx, .parquet, Moses; compressed or zipped too.
        out: Folder for the encoder, its file and the report.
        max_mb: Maximum size of the file in megabytes. Default: 16 with layers.
        max_length: Longest text in tokens; the rest of longer ones is ignored.
        minutes: Expected minutes of training; 0 trains nothing.
        text: Files with a sentence a line, which help to choose the vocabulary, and are
            trained on if there are no pairs.
        languages: Codes of the languages that no pairs name. Without --text, the
            vocabulary is chosen by word frequencies.
        language: Code of the translations' language, if no name gives it.
        source_language: Code of the sources' language, if not English.
        format: Format of the files, if no suffix shows it.
        columns: Names or numbers (from 1) of both columns.
        start: Where training starts: e5-small, small12, tiny12, pairs (ridge baseline)
            or the folder of an encoder or checkpoint.
        guard: Keep the encoder before training if a score on general text falls by more
            than this many points.
        no_guard: Allow any loss on general text.
        teacher: Whose vectors are learnt: default (all-MiniLM-L6-v2), a folder,
            hf://org/name, ... Default: the start before it is cut to size.
        multilingual: Your teacher reads other languages than English.
        align: Translations learn the vectors of their sources. Finds more translations,
            searches passages worse.
        updates: Training steps, in place of --minutes.
        batch_size: Pairs in a batch.
        learning_rate: Highest learning rate.
        vocabulary_size: Maximum vocabulary.
        store: Folder to cache the teacher's vectors; runs can share it.
        seed: Seed for the order of the pairs.
    """
    print(f"Making an encoder in {out}", file=sys.stderr, flush=True)
    from keras_msd.data.readers import check_pairs, read_pairs
    from keras_msd.data.readers.lines import read_texts
    from keras_msd.data.words import check_listed
    from keras_msd.distillation.split import check_new

    if not pairs and not languages:
        raise InputError(
            "`distil` needs files of pairs, or --languages. Received: neither. Give "
            "one: keras-msd distil pairs.csv --out model"
        )
    if not pairs and not text:
        check_listed(codes(languages or ""))
    check_new(out)
    names = columns.split(",") if columns else None
    if pairs:
        files = read_pairs(pairs, format, language, source_language, names)
        check_pairs(files, MIN_PAIRS)
    texts = [line for path in text or () for line in read_texts(path)]
    # TensorFlow takes seconds to load.
    from keras_msd import distil as make

    with says_how_to_resume():
        return make(
            pairs or None,
            out,
            language=language,
            source_language=source_language,
            format=format,
            columns=names,
            texts=texts,
            languages=codes(languages or ""),
            max_mb=max_mb,
            max_length=max_length,
            teacher=teacher,
            multilingual=multilingual,
            align=align,
            start=start,
            guard=None if no_guard else guard,
            minutes=minutes,
            updates=updates,
            batch_size=batch_size,
            learning_rate=learning_rate,
            vocabulary_size=vocabulary_size,
            store_dir=store,
            seed=seed,
        )
