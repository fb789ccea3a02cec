"""The commands that make files: `export`, `push` and `trim`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.choices import MIN_COMPARED
from keras_msd.cli.output import calibrated, codes, lines_with_text, without_none
from keras_msd.io.files import read_table, read_toml

# For the shell to complete; the table that is read from it imports NumPy.
FORMATS_FILE = Path(__file__).parents[1] / "export" / "formats.toml"
Format = Annotated[
    str | None,
    typer.Option("--format", autocompletion=lambda: list(read_toml(FORMATS_FILE))),
]


def export(
    encoder: str,
    path: Path,
    *,
    format: Format = None,
    quantize: str | None = None,
    languages: str = "",
    data: Path | None = None,
    sts: str = "stsb",
    split: str = "dev",
    pairs: list[Path] | None = None,
    min_cosine: float | None = None,
    max_sts_loss: float | None = None,
    min_neighbours: float | None = None,
    license: str | None = None,
    teacher_license: str | None = None,
    data_license: str | None = None,
    leave_out: str = "",
    base_model: str | None = None,
    datasets: str = "",
) -> dict[str, Any]:
    """Write an artefact that runs without keras_msd, and check it in its runtime.

    Example: keras-msd export runs/demo/student artefacts/student --format litert
    --quantize int8 --languages en,de

    Args:
        encoder: An encoder's folder, tiny12, mini12, small12 or hf://organisation/model.
        path: Folder of the artefact.
        format: saved_model (default), litert, litert_text, onnx, onnx_text, gguf,
            huggingface or model2vec.
        quantize: fp16, int8, int4_table or int4; f16, q8_0 or q4_0 for gguf.
        languages: Codes for the card, with commas. Default: those of the run that
            trained the encoder.
        data: Folder with sts/, to score before and after.
        sts: STS set.
        split: Split of the STS set.
        pairs: Files of held-out translations: calibrate the threshold on them.
        min_cosine: Fail if the cosine between a vector and the encoder's is lower. The
            defaults of all limits depend on --quantize: see export/README.md.
        max_sts_loss: Fail if more points of Spearman x 100 are lost.
        min_neighbours: Fail if a smaller share of nearest neighbours is kept, such as
            0.9.
        license: Licence of the artefact.
        teacher_license: Licence of the teacher.
        data_license: Licence of the training sentences.
        leave_out: huggingface: weights, int8 or both, with commas.
        base_model: huggingface: the teacher's name on the hub.
        datasets: huggingface: names of data on the hub, with commas.
    """
    from keras_msd.data.readers import check_pairs, read_pairs

    if pairs:
        check_pairs(read_pairs(pairs), MIN_COMPARED)
    from keras_msd.evaluate import read_sts_folder
    from keras_msd.export import export as export_encoder
    from keras_msd.export import read_card
    from keras_msd.load import open_encoder

    settings = card_of(encoder) | without_none(
        format=format,
        quantize=quantize,
        min_cosine=min_cosine,
        max_sts_loss=max_sts_loss,
        min_neighbours=min_neighbours,
        license=license,
        teacher_license=teacher_license,
        data_license=data_license,
        leave_out=codes(leave_out) or None,
        base_model=base_model,
        datasets=codes(datasets) or None,
    )
    of_encoder = settings.pop("languages", [])
    trained = codes(languages) or of_encoder
    if data:
        # A set has files for fewer languages than an encoder knows.
        folder = data / "sts"
        names = {code: f"{sts}.{split}.{code}.tsv.gz" for code in trained}
        scored = [code for code, name in names.items() if (folder / name).is_file()]
        settings["sts"] = read_sts_folder(folder, scored, split, sts)
        settings["sts_name"] = f"{sts} {split} in {', '.join(settings['sts'])}"
    loaded = open_encoder(encoder)
    settings |= without_none(threshold=calibrated(loaded, pairs))
    written = export_encoder(loaded, path, languages=trained, **settings)
    card = read_card(written)
    shown = {key: card[key] for key in ("format", "quantize", "bytes", "parity")}
    return {"artefact": str(written)} | shown


def card_of(encoder: str) -> dict[str, Any]:
    """Return the languages and licences that are known of an encoder.

    Args:
        encoder: The name of a packaged one; or perhaps a folder in that of a run, where
            they stand on the card of the run's own artefact.
    """
    from keras_msd.checkpoints.packaged import is_packaged, packaged_card
    from keras_msd.export.card import CARD

    if is_packaged(encoder):
        return packaged_card(encoder)
    folder = Path(encoder)
    path = folder.parent / "artefacts" / f"{folder.name}_saved_model" / CARD
    card = read_table(path) if path.is_file() else {}
    names = "languages", "teacher_license", "data_license"
    return {name: card[name] for name in names if card.get(name)}


def push(folder: Path, repo: str, *, private: bool = False) -> dict[str, Any]:
    """Send an artefact to the Hugging Face hub, or to the one that HF_ENDPOINT names.

    Log in first: `hf auth login`, or HF_TOKEN in the environment.

    Example: keras-msd push artefacts/student organisation/student

    Args:
        folder: An artefact: format huggingface.
        repo: organisation/model; created if missing.
        private: Create a private repository.
    """
    from keras_msd.export import push_to_hub

    return {"commit": push_to_hub(folder, repo, private=private)}


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
        encoder: Encoder: a folder, tiny12, mini12, small12 or hf://.
        out: Folder of the trimmed encoder.
        texts: UTF-8 file (also .gz), one sentence per line.
        languages: Instead of --texts: codes, with commas.
        data: Folder with parallel/train/.
        keep: Vocabulary to keep: a size, such as 20000, or a share of the texts'
            tokens, such as 0.99; default all that occur.
        min_count: Remove tokens that occur less often.
    """
    from keras_msd.data.readers import LanguageTexts

    if bool(texts) == bool(languages) or bool(languages) != (data is not None):
        options = {"--texts": texts, "--languages": languages, "--data": data}
        came = ", ".join(name for name, value in options.items() if value) or "neither"
        raise InputError(
            f"The texts to keep tokens of must be given once. Received: {came}. "
            "Give either --texts FILE, or --languages CODES and --data FOLDER."
        )
    if out.exists():
        from keras_msd.models.encoder_folder import check_new_or_encoder

        check_new_or_encoder(out)
    if out.resolve() == Path(encoder).resolve():
        raise InputError(
            f"`{out}` is the encoder itself and would be overwritten. Give another "
            "folder."
        )
    counted: Iterable[str]
    if data is not None:
        counted = LanguageTexts(data, codes(languages))
    else:
        counted = [it for path in texts or () for it in lines_with_text(path).values()]
    share = _amount(keep)
    # What imports more comes after the files were read.
    from keras_msd.load import open_encoder
    from keras_msd.models.trim import trim_vocabulary, trimming_report

    whole = open_encoder(encoder)
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
