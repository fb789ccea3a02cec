"""The command `keras-msd trim`: an encoder with the pieces that some languages use."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import output
from keras_msd.cli.output import Json, codes


def trim(
    encoder: Annotated[
        str, typer.Argument(help="Encoder: a folder, tiny12, small12 or hf://.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the trimmed encoder.")],
    texts: Annotated[
        list[Path] | None,
        typer.Option("--texts", help="UTF-8 file (also .gz), one sentence per line."),
    ] = None,
    languages: Annotated[
        str, typer.Option(help="Instead of --texts: codes, with commas.")
    ] = "",
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with parallel/train/.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="Vocabulary to keep: a size, such as 20000, or a share of the texts' "
            "tokens, such as 0.99; default all that occur."
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(help="Remove tokens that occur less often.")
    ] = 1,
    json: Json = False,
) -> None:
    """Keep only the tokens that some texts use; their vectors stay the same.

    Example: keras-msd trim runs/lab/student small --languages de,en --data DATA
    """
    from keras_msd import load_encoder
    from keras_msd.data.readers.discover import LanguageTexts
    from keras_msd.data.readers.lines import read_texts
    from keras_msd.models.encoder_folder import is_saved_encoder
    from keras_msd.models.trim import trim_vocabulary, trimming_report

    if bool(texts) == bool(languages) or bool(languages) != (data is not None):
        options = {"--texts": texts, "--languages": languages, "--data": data}
        came = ", ".join(name for name, value in options.items() if value) or "neither"
        raise InputError(
            f"The texts to keep tokens of must be given once. Received: {came}. "
            "Give either --texts FILE, or --languages CODES and --data FOLDER."
        )
    if out.exists() and not is_saved_encoder(out):
        raise InputError(f"`{out}` exists and is not an encoder. Give a new path.")
    if out.resolve() == Path(encoder).resolve():
        raise InputError(
            f"`{out}` is the encoder itself and would be overwritten. Give another "
            "folder."
        )
    lines = (line for path in texts or [] for line in read_texts(path))
    counted: Iterable[str] = [line for line in lines if line.strip()]
    if data is not None:
        counted = LanguageTexts(data, codes(languages))
    whole = load_encoder(encoder)
    trimmed = trim_vocabulary(whole, counted, keep=_amount(keep), min_count=min_count)
    report = trimming_report(whole, trimmed, counted)
    trimmed.save(out)
    output.show({"encoder": str(out)} | report, json, report_text)


def report_text(report: dict[str, Any]) -> Iterator[str]:
    """Yield what was kept, and what that means for the texts."""
    yield (
        f"{report['encoder']}: {report['pieces_after']:,} of "
        f"{report['pieces_before']:,} pieces, {report['bytes_after']:,} of "
        f"{report['bytes_before']:,} bytes"
    )
    yield (
        f"Of the tokens of {report['texts']:,} texts {100 * report['tokens_kept']:.2f} "
        f"% are kept; {100 * report['texts_unchanged']:.2f} % of the texts are split, "
        "and so mapped, as before"
    )


def _amount(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise InputError(
            "`--keep` must be a number of pieces, such as 20000, or a share of the "
            f"tokens with a point, such as 0.99. Received: {text!r}."
        ) from error
