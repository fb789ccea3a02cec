"""The command `keras-msd trim`: an encoder with the pieces that some languages use."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.cli.output import codes


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
    """Keep only the tokens that some texts use; their vectors stay the same.

    Example: keras-msd trim runs/lab/student small --languages de,en --data DATA

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
    return {"encoder": str(out)} | report


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
