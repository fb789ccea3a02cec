"""The commands `embed`, `evaluate`, `serve` and `trim`: what to do with an encoder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli.output import codes, without_none, write_vectors
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
        encoder: An encoder's folder, tiny12, small12, an artefact,
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


def embed(
    encoder: str,
    texts: list[str] | None = None,
    *,
    input_: Path | None = None,
    out: Path | None = None,
    truncate_dim: int | None = None,
    prompt_name: str | None = None,
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
        truncate_dim: Keep only the first dimensions, so many.
        prompt_name: Prompt of the model to put before each sentence, such as query or
            document.
    """
    from keras_msd.arrays import check_truncation
    from keras_msd.data.readers.lines import read_texts

    sentences = [*(texts or []), *(read_texts(input_) if input_ else [])]
    if not sentences:
        raise InputError("There is nothing to embed. Give sentences or `--input FILE`.")
    from keras_msd.load import open_source  # imports more, so after the file was read

    model = open_source(encoder, light=True)
    check_truncation(truncate_dim, model.dim)
    if prompt_name is not None and not hasattr(model, "prompts"):
        raise InputError(
            f"`{encoder}` is a teacher without prompts. Leave out `--prompt-name`."
        )
    options = {} if prompt_name is None else {"prompt_name": prompt_name}
    vectors = model.encode(sentences, **options)[:, :truncate_dim]
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
    cors: list[str] | None = None,
    api_key: Annotated[
        str | None, typer.Option("--api-key", envvar="KERAS_MSD_API_KEY")
    ] = None,
) -> None:
    """Serve an OpenAI-compatible embeddings API over HTTP.

    Example: keras-msd serve tiny12 --port 8000

    Args:
        model: An encoder's folder, tiny12, small12, an artefact or
            hf://organisation/model.
        host: Address to listen on; 0.0.0.0 for all networks.
        port: Port; 0 for a free one.
        name: Name of the model in requests; default its own.
        cors: Origin of web pages that may call the server, such as
            http://localhost:3000; repeat it for several. Default: none.
        api_key: Key that requests must send; other users of the machine cannot see it
            in the environment variable.
    """
    from keras_msd.load import open_source
    from keras_msd.serve import serve as run

    path = Path(model)
    title = name or path.name or path.resolve().name
    run(open_source(model, light=True), title, host, port, cors or (), api_key)


def trim(
    encoder: str,
    out: Path,
    *,
    texts: list[Path] | None = None,
    languages: str = "",
    data: Path | None = None,
    keep: str | None = None,
    min_count: int = 1,
) -> dict[str, Any]:
    """Remove the tokens that the given texts do not use.

    The vectors of these texts stay the same.

    Example: keras-msd trim runs/backbone/student small --languages de,en --data DATA

    Args:
        encoder: Encoder: a folder, tiny12, small12 or hf://.
        out: Folder of the trimmed encoder.
        texts: UTF-8 file (also .gz), one sentence per line.
        languages: Instead of --texts: codes, with commas.
        data: Folder with parallel/train/.
        keep: Vocabulary to keep: a size, such as 20000, or a share of the texts'
            tokens, such as 0.99; default all that occur.
        min_count: Remove tokens that occur less often.
    """
    from keras_msd.data.readers import LanguageTexts
    from keras_msd.data.readers.lines import read_texts

    if bool(texts) == bool(languages) or bool(languages) != (data is not None):
        options = {"--texts": texts, "--languages": languages, "--data": data}
        came = ", ".join(name for name, value in options.items() if value) or "neither"
        raise InputError(
            f"The texts to keep tokens of must be given once. Received: {came}. "
            "Give either --texts FILE, or --languages CODES and --data FOLDER."
        )
    if out.exists():
        from keras_msd.models.encoder_folder import is_saved_encoder

        if not is_saved_encoder(out):
            raise InputError(f"`{out}` exists and is not an encoder. Give a new path.")
    if out.resolve() == Path(encoder).resolve():
        raise InputError(
            f"`{out}` is the encoder itself and would be overwritten. Give another "
            "folder."
        )
    lines = (line for path in texts or [] for line in read_texts(path))
    counted: Iterable[str] = [line for line in lines if line.strip()]
    if texts and not counted:
        raise InputError(
            f"`--texts {texts[0]}` must hold a line of text. Received: empty lines. "
            "Give a file with sentences."
        )
    if data is not None:
        counted = LanguageTexts(data, codes(languages))
    share = _amount(keep)
    # What imports more comes after the files were read.
    from keras_msd import load_encoder
    from keras_msd.models.trim import trim_vocabulary, trimming_report

    whole = load_encoder(encoder)
    trimmed = trim_vocabulary(whole, counted, keep=share, min_count=min_count)
    report = trimming_report(whole, trimmed, counted)
    trimmed.save(out)
    return {"encoder": str(out)} | report


def _amount(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise InputError(
            "`--keep` must be a number of pieces, such as 20000, or a share of the "
            f"tokens, such as 0.99. Received: {text!r}."
        ) from error
