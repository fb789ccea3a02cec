"""The commands `embed`, `evaluate` and `serve`: what one does with an encoder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli.output import codes, given, open_source, write_vectors
from keras_msd.evaluate.sets import SETS
from keras_msd.evaluate.splits import WHOLE

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
        encoder: An encoder's folder, tiny12, small12, an artefact,
            hf://organisation/model, or a teacher: "default", a published SavedModel, an
            .npz file.
        data: Data folder, or a set as downloaded.
        languages: Codes, with commas; for parallel sets such as tatoeba also pairs
            (de-fr). Default: all.
        set_: Name of the set.
        split: Such as test; default: the set's first split.
        part: all, choose (tuning half) or report (reporting half), for sets that have
            halves.
        queries: un: number of queries; default all.
        margin: bucc2018: ratio, distance or absolute.
        mteb: Instead: the name of a task of mteb, such as STS17, which mteb fetches and
            scores.
    """
    if mteb:
        from keras_msd.evaluate.mteb_adapter import mteb_scores

        return mteb_scores(lambda: open_source(encoder), mteb)
    if data is None:
        raise InputError("Give `--data`, the folder of the set, or `--mteb TASK`.")
    from keras_msd.evaluate import score_set

    options = given(queries=queries, margin=margin)
    chosen = codes(languages) or None
    return score_set(open_source(encoder), set_, data, chosen, split, part, **options)


def embed(
    encoder: str,
    texts: list[str] | None = None,
    *,
    input_: Path | None = None,
    out: Path | None = None,
    truncate_dim: int | None = None,
) -> dict[str, Any]:
    """Embed sentences.

    Example: keras-msd embed runs/demo/student --input lines.txt --out v.npz

    Args:
        encoder: An encoder's folder, tiny12, small12, an artefact,
            hf://organisation/model, or a teacher: "default", a published SavedModel, an
            .npz file.
        texts: Sentences.
        input_: UTF-8 file with one sentence per line.
        out: Write sentences and vectors to this .npz file.
        truncate_dim: Keep only this number of leading dimensions.
    """
    from keras_msd.arrays import check_prefix, unit_rows
    from keras_msd.data.readers.lines import read_texts

    sentences = [*(texts or []), *(read_texts(input_) if input_ else [])]
    if not sentences:
        raise InputError("There is nothing to embed. Give sentences or `--input FILE`.")
    model = open_source(encoder, light=True)
    check_prefix(truncate_dim, model.dim)
    vectors = model.encode(sentences)
    if truncate_dim is not None:
        vectors = unit_rows(vectors[:, :truncate_dim])
    result = {"sentences": len(sentences), "dim": vectors.shape[1]}
    if out is None:
        return result | {"vectors": vectors.tolist()}
    write_vectors(out, sentences, vectors)
    return result | {"file": str(out)}


def serve(
    model: str,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535)] = 8000,
    name: str | None = None,
) -> None:
    """Serve an OpenAI-compatible embeddings API over HTTP.

    Example: keras-msd serve tiny12 --port 8000

    Args:
        model: An encoder's folder, tiny12, small12, an artefact or
            hf://organisation/model.
        host: Address to listen on; 0.0.0.0 for all networks.
        port: Port; 0 for a free one.
        name: Name of the model in requests; default its own.
    """
    from keras_msd.serve import serve as run

    path = Path(model)
    if path.is_file() or (path / "card.json").is_file():
        from keras_msd.export import load_artefact  # needs no TensorFlow

        encoder: Any = load_artefact(model)
    else:
        from keras_msd import load_encoder

        encoder = load_encoder(model)
    run(encoder, name or path.name or path.resolve().name, host, port)
