"""The command `compare`: encoders side by side on your own pairs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.choices import MIN_COMPARED
from keras_msd.cli.output import table

SOLVED = (
    "All encoders find every translation: P@1 on these pairs cannot tell them apart. "
    "Compare the margins, or give more pairs or more similar sentences."
)


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
        encoders: Encoders: folders, tiny12, small12, artefacts,
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


def compared_text(result: dict[str, Any]) -> Iterator[Any]:
    """Yield a table with a row for each encoder, and what it cannot tell."""
    graded = ["STS"] if any("spearman" in it for it in result["encoders"]) else []
    heads = ["", "P@1", "95 %", "to target", "to source", "margin", "MRR", *graded]
    heads += ["dim", "MB", "ms alone", "ms in 64"]
    rows = []
    for one in result["encoders"]:
        low, high = one["interval"]
        stored = one["bytes"]
        rows.append(
            [
                one["name"],
                f"{one['precision']:.1f}",
                f"{low:.1f}-{high:.1f}",
                f"{one['source_to_target']:.1f}",
                f"{one['target_to_source']:.1f}",
                f"{one['margin']:.3f}",
                f"{one['mrr']:.1f}",
                *(f"{one['spearman']:.1f}" for _ in graded),
                str(one["dim"]),
                "" if stored is None else f"{stored / 1e6:.1f}",
                f"{one['milliseconds_1']:.2f}",
                f"{one['milliseconds_64']:.2f}",
            ]
        )
    shares = " and ".join(["P@1", "MRR", *graded])
    yield f"{result['pairs']:,} pairs. {shares} x100; ms: per sentence."
    yield table(heads, rows)
    if result["solved"]:
        yield SOLVED
