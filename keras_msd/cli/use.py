"""The commands that use an encoder: `embed`, `serve`, `search` and `mine`."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli.output import lines_with_text, write_vectors
from keras_msd.io.files import atomic_path

CARD = "card"
Words = Annotated[list[str], typer.Argument(metavar="ENCODER [QUERY] FILE")]


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
        encoder: An encoder's folder, tiny12, mini12, small12, an artefact,
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
    _check_file(out)
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
        model: An encoder's folder, tiny12, mini12, small12, an artefact or
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


def search(
    words: Words,
    *,
    queries: Path | None = None,
    top: int = 5,
    threshold: str | None = None,
) -> list[dict[str, Any]]:
    """Find the lines of a file that are nearest to a query.

    Example: keras-msd search tiny12 'Wo ist der Hund?' lines.txt

    Args:
        words: Encoder, query and UTF-8 text file; without a query if --queries is
            given.
        queries: UTF-8 file, one query per line, instead of QUERY.
        top: Matches to show.
        threshold: Hide matches with a lower cosine: a number, or card for the threshold
            in the artefact's card (made with `keras-msd export --pairs`).
    """
    if len(words) != (3 if queries is None else 2):
        raise InputError(
            "Give ENCODER QUERY FILE, or ENCODER FILE and --queries FILE. Received: "
            f"{len(words)} words{f', --queries {queries}' if queries else ''}."
            " Put a query of several words in quotes."
        )
    asked = [*lines_with_text(queries).values()] if queries else [words[1]]
    lines = lines_with_text(Path(words[-1]))
    places = list(lines)
    # What imports more comes after the files were read.
    from keras_msd import search as find
    from keras_msd.load import open_source

    encoder = open_source(words[0], light=True)
    lowest = _lowest(threshold, encoder)

    rows = [
        [
            match._replace(place=places[match.place])._asdict()
            for match in matches
            if match.cosine >= lowest
        ]
        for matches in find(encoder, asked, lines.values(), top)
    ]
    if queries is None:
        return rows[0]
    return [
        {"query": query, "matches": matches}
        for query, matches in zip(asked, rows, strict=True)
    ]


def _lowest(threshold: str | None, encoder: Any) -> float:
    """Return the lowest cosine to show."""
    if threshold is None:
        return -1.0
    if threshold == CARD:
        found = getattr(encoder, "card", {}).get("threshold")
        if found is None:
            raise InputError(
                "The encoder has no card with a threshold. Give a number, or an "
                "artefact of `keras-msd export --pairs`."
            )
        if found["cosine"] is None:
            raise InputError(
                f"No cosine makes {found['asked']:.0f} % of the answers right on "
                f"{found['set'] or 'the held-out pairs'}. Give a number."
            )
        return float(found["cosine"])
    try:
        return float(threshold)
    except ValueError as error:
        raise InputError(
            f"`--threshold` must be a number or {CARD}. Received: {threshold!r:.60}."
        ) from error


def mine(
    sources: Path,
    targets: Path | None = None,
    *,
    encoder: Annotated[str, typer.Option("--encoder", "-e")],
    out: Path | None = None,
    margin: str = "ratio",
    threshold: float | None = None,
    k: int = 4,
) -> dict[str, Any]:
    """Find translations in two files, best first.

    With one file, find sentences in it that mean the same, by their cosine.

    Empty lines are skipped, and repeated lines count once.

    Example: keras-msd mine german.txt english.txt --encoder runs/backbone/student --out
    pairs.tsv --threshold 1.06

    Args:
        sources: UTF-8 file (also .gz), one sentence per line.
        targets: The same in another language; without it, paraphrases.
        encoder: An encoder's folder, tiny12, mini12, small12, an artefact,
            hf://organisation/model, or a teacher: "default", a published SavedModel, an
            .npz file.
        out: Write score, source, target to this .tsv or .tsv.gz.
        margin: How to score a pair: ratio or distance (compared with other neighbours),
            or absolute (the cosine).
        threshold: Lowest score to keep; without it, all pairs.
        k: Neighbours per sentence for the margin.
    """
    from keras_msd import checks
    from keras_msd.evaluate.bitext import MARGINS, mine_paraphrases
    from keras_msd.evaluate.bitext import mine as find

    checks.one_of(MARGINS, margin=margin)
    checks.at_least(1, k=k)
    _check_file(out)
    left = read_sentences(sources)
    right = left if targets is None else read_sentences(targets)
    texts = list(left), list(right)
    from keras_msd.load import open_source  # imports more, so after the files were read

    model = open_source(encoder)
    if targets is None:
        margin = "absolute"
        pairs = mine_paraphrases(model, texts[0], k, threshold)
    else:
        pairs = find(model, *texts, margin, k, threshold)
    rows = [
        {
            "score": pair.score,
            "source": texts[0][pair.source_row],
            "target": texts[1][pair.target_row],
            "source_line": left[texts[0][pair.source_row]],
            "target_line": right[texts[1][pair.target_row]],
        }
        for pair in pairs
    ]
    if out is not None:
        write_pairs(out, rows)
    result = {
        "sources": len(left),
        "targets": len(right),
        "mined": len(rows),
        "margin": margin,
        "k": k,
        "threshold": threshold,
    }
    return result | ({"pairs": rows} if out is None else {"file": str(out)})


def write_pairs(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write score TAB source TAB target, through gzip if the name ends so."""
    lines = (f"{row['score']:.6f}\t{row['source']}\t{row['target']}\n" for row in rows)
    text = "".join(lines).encode()
    with atomic_path(path) as temporary:
        # Without a time in it, the same pairs are the same bytes.
        packed = gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
        temporary.write_bytes(packed)


def read_sentences(path: Path) -> dict[str, int]:
    """Return the distinct sentences of a file, each with the number of its first line.

    Raises:
        InputError: The file cannot be read, has a tab in a line, or no sentence.
    """
    from keras_msd.data.readers.lines import read_lines

    sentences: dict[str, int] = {}
    for number, line in read_lines(path):
        if "\t" in line:
            raise InputError(
                f"{path}, line {number}: a line must be one sentence, without a tab. "
                "Take the column with the sentences, for example with: cut -f1"
            )
        if text := line.strip():
            sentences.setdefault(text, number)
    if not sentences:
        raise InputError(f"`{path}` must hold a sentence. Received: empty lines only.")
    return sentences


def _check_file(out: Path | None) -> None:
    """Raise `InputError` for a folder, before the work whose result is a file."""
    if out is not None and out.is_dir():
        raise InputError(f"`--out {out}` is a folder. Give the path of a file.")
