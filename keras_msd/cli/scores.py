"""The commands that score encoders: `evaluate` and `compare`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.choices import MIN_COMPARED
from keras_msd.cli.output import codes, without_none
from keras_msd.evaluate.parts import WHOLE
from keras_msd.evaluate.sets import SETS

SetName = Annotated[
    str,
    typer.Option(
        "--set",
        "--sts",
        help=f"{', '.join(SETS)}; or the name of aligned similarity files.",
        autocompletion=lambda: list(SETS),
    ),
]


def evaluate(
    encoder: str,
    *,
    data: Path | None = None,
    languages: str = "",
    set_: SetName = "stsb",
    split: str | None = None,
    part: str = WHOLE,
    queries: int | None = None,
    margin: str | None = None,
    mteb: str | None = None,
) -> dict[str, Any]:
    """Score an encoder on an evaluation set.

    Example: keras-msd evaluate runs/demo/student --data DATA --set sts2017-extended

    Args:
        encoder: An encoder's folder, tiny12, mini12, small12, an artefact,
            hf://organisation/model, or a teacher: "default", a published SavedModel, an
            .npz file.
        data: Folder with sts/, tatoeba/ and so on, or a set in its published layout.
        languages: Codes, with commas; for parallel sets such as tatoeba also pairs
            (de-fr). Default: all.
        set_: Name of the set.
        split: Such as test. Default: the first that the set has; dev for stsb.
        part: all, choose (tuning half) or report (reporting half), for sets that have
            halves.
        queries: Only for un: number of queries. Default: all.
        margin: Only for bucc2018: ratio, distance or absolute.
        mteb: Run this task of MTEB, such as STS17, instead of --set.
    """
    if mteb:
        from keras_msd.evaluate.adapters import mteb_scores
        from keras_msd.load import open_source

        return mteb_scores(lambda: open_source(encoder), mteb)
    if data is None:
        raise InputError("Give `--data`, the folder of the set, or `--mteb TASK`.")
    from keras_msd.evaluate.sets import read_set

    options = without_none(queries=queries, margin=margin)
    score = read_set(set_, data, codes(languages) or None, split, part, **options)
    from keras_msd.load import open_source  # imports more, so after the files were read

    return score(open_source(encoder))


def compare(
    encoders: list[str],
    *,
    pairs: list[str],
    sts: Path | None = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", metavar="NAME=TEXT")
    ] = None,
    api_key: Annotated[
        list[str] | None, typer.Option("--api-key", metavar="NAME=VARIABLE")
    ] = None,
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B")] = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare encoders on your own pairs of sentences and translations.

    P@1 is the share of sentences whose own translation is the nearest, in both
    directions; the margin is its cosine minus the best wrong one's.

    Example: keras-msd compare tiny12 small12 http://127.0.0.1:8000/v1 --pairs pairs.csv

    Args:
        encoders: Encoders: folders, tiny12, mini12, small12, artefacts,
            hf://organisation/model, teachers ("default", a published SavedModel, an
            .npz file), or addresses of an OpenAI-compatible embeddings API, with the
            name of the model after # if the server has several.
        pairs: Pairs: .tsv, .csv (header: source,target or language codes), .jsonl,
            .json, .tmx, .parquet, Moses; compressed or zipped too.
        sts: Also score this .tsv file: score, sentence, sentence.
        prefix: Text before every sentence for the encoder NAME, such as
            "hf://intfloat/multilingual-e5-small=query: ".
        api_key: Environment variable with the API key for the address NAME.
        language: Code of the translations' language, if no name gives it.
        source_language: Code of the sources' language, if not English.
        format: Format of the files, if no suffix shows it.
        columns: Names or numbers (from 1) of both columns.
        seed: Seed for the interval.
    """
    prefixes = _by_name(prefix, encoders, "--prefix", "TEXT")
    variables = _by_name(api_key, encoders, "--api-key", "VARIABLE")
    keys = {name: _key(name, variable) for name, variable in variables.items()}
    from keras_msd.data.readers import check_pairs, read_pairs
    from keras_msd.evaluate.similarity import read_sts

    names = columns.split(",") if columns else None
    corpus = read_pairs(pairs, format, language, source_language, names)
    check_pairs(corpus, MIN_COMPARED)
    rows = list(corpus)
    graded = read_sts(sts) if sts else None
    from keras_msd.evaluate import EmbeddingsAPI
    from keras_msd.evaluate import compare as compare_encoders

    sources = {
        name: EmbeddingsAPI(name, keys[name]) if name in keys else name
        for name in encoders
    }
    return compare_encoders(sources, rows, graded, prefixes, seed)


def _by_name(
    given: Sequence[str] | None, names: Sequence[str], option: str, what: str
) -> dict[str, str]:
    """Return the texts of an option by the encoders that they are for."""
    found = {}
    for text in given or ():
        name = next((name for name in names if text.startswith(f"{name}=")), None)
        if name is None:
            raise InputError(
                f"`{option}` must be NAME={what}, with the name of one of the encoders:"
                f" {', '.join(names)}. Received: {text!r:.80}."
            )
        found[name] = text[len(name) + 1 :]
    return found


def _key(name: str, variable: str) -> str:
    if not (key := os.environ.get(variable)):
        raise InputError(
            f"`--api-key {name}={variable}`: the environment variable {variable} must "
            "hold the key. Received: no value. Set it, or name another variable."
        )
    return key
