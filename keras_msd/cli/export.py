"""The commands `keras-msd export` and `push`: an artefact, proven; and sent away."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.cli import output
from keras_msd.cli.output import Json, codes
from keras_msd.cli.search import PAIRS_HELP, calibrated
from keras_msd.files import read_table, read_toml

# For the shell to complete; the table that is read from it imports NumPy.
FORMATS = Path(__file__).parents[1] / "export" / "formats.toml"


def export(
    encoder: Annotated[
        str,
        typer.Argument(
            help="An encoder's folder, tiny12, small12 or hf://organisation/model."
        ),
    ],
    path: Annotated[Path, typer.Argument(help="Folder of the artefact.")],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="saved_model, litert, litert_text, onnx, onnx_text, huggingface or "
            "model2vec.",
            autocompletion=lambda: list(read_toml(FORMATS)),
        ),
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="fp16, int8, int4_table or int4.")
    ] = None,
    languages: Annotated[
        str, typer.Option(help="Codes, with commas; else the run's.")
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with sts/, to score before and after."),
    ] = None,
    sts: Annotated[str, typer.Option(help="STS set.")] = "stsb",
    split: Annotated[str, typer.Option(help="Split of the STS set.")] = "dev",
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help=PAIRS_HELP)
    ] = None,
    min_cosine: Annotated[
        float | None, typer.Option(help="Smallest cosine to the encoder.")
    ] = None,
    max_sts_loss: Annotated[
        float | None, typer.Option(help="Maximum loss in points of Spearman.")
    ] = None,
    min_neighbours: Annotated[
        float | None,
        typer.Option(help="Minimum share of nearest neighbours kept."),
    ] = None,
    license_: Annotated[
        str | None, typer.Option("--license", help="Licence of the artefact.")
    ] = None,
    teacher_license: Annotated[
        str | None, typer.Option(help="Licence of the teacher.")
    ] = None,
    data_license: Annotated[
        str | None, typer.Option(help="Licence of the training sentences.")
    ] = None,
    leave_out: Annotated[
        str, typer.Option(help="huggingface: weights, int8 or both, with commas.")
    ] = "",
    base_model: Annotated[
        str | None, typer.Option(help="huggingface: the teacher's name on the hub.")
    ] = None,
    datasets: Annotated[
        str, typer.Option(help="huggingface: names of data on the hub, with commas.")
    ] = "",
    json: Json = False,
) -> None:
    """Write an artefact that runs without keras_msd, and check it in its runtime.

    Example: keras-msd export runs/demo/student artefacts/student --format litert
    --quantize int8 --languages en,de
    """
    from keras_msd import load_encoder
    from keras_msd.evaluate import read_sts_folder
    from keras_msd.export import export as export_encoder
    from keras_msd.export import read_card

    settings = card_of(encoder) | output.given(
        format=format_,
        quantize=quantize,
        min_cosine=min_cosine,
        max_sts_loss=max_sts_loss,
        min_neighbours=min_neighbours,
        license=license_,
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
    loaded = load_encoder(encoder)
    settings |= output.given(threshold=calibrated(loaded, pairs))
    written = export_encoder(loaded, path, languages=trained, **settings)
    card = read_card(written)
    shown = {key: card[key] for key in ("format", "quantize", "bytes", "parity")}
    output.show({"artefact": str(written)} | shown, json, output.export_text)


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


def push(
    folder: Annotated[Path, typer.Argument(help="An artefact: format huggingface.")],
    repo: Annotated[
        str, typer.Argument(help="organisation/model; created if missing.")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Create a private repository.")
    ] = False,
    json: Json = False,
) -> None:
    """Send an artefact to the Hugging Face hub, or to the one that HF_ENDPOINT names.

    Log in first: `hf auth login`, or HF_TOKEN in the environment.

    Example: keras-msd push artefacts/student organisation/student
    """
    from keras_msd.export import push_to_hub

    address = push_to_hub(folder, repo, private=private)
    output.show({"commit": address}, json, output.lines_text)
