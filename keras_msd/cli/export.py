"""The command `keras-msd export`: an artefact, proven in its runtime."""

from pathlib import Path
from typing import Annotated

import typer

from keras_msd.cli import output
from keras_msd.cli.data import codes
from keras_msd.cli.output import Json

EXAMPLE = (
    "Example: keras-msd export runs/demo/student artefacts/student "
    "--format litert --quantize int8 --languages en,de"
)


def export(
    encoder: Annotated[
        str, typer.Argument(help="An encoder's folder or hf://organisation/model.")
    ],
    path: Annotated[Path, typer.Argument(help="Where the artefact goes.")],
    format_: Annotated[
        str | None,
        typer.Option("--format", help="saved_model, litert, litert_text, onnx, ..."),
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="fp16, int8, int4_table or int4.")
    ] = None,
    opset: Annotated[
        int | None, typer.Option(help="ONNX for old runtimes: 13 to 18.")
    ] = None,
    languages: Annotated[str, typer.Option(help="Codes, with commas.")] = "",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with sts/, to score before and after."),
    ] = None,
    sts: Annotated[str, typer.Option(help="STS set.")] = "stsb",
    split: Annotated[str, typer.Option(help="Part of the STS set.")] = "dev",
    min_cosine: Annotated[
        float | None, typer.Option(help="Smallest cosine to the encoder.")
    ] = None,
    max_sts_loss: Annotated[
        float | None, typer.Option(help="Points of Spearman that may be lost.")
    ] = None,
    min_neighbours: Annotated[
        float | None,
        typer.Option(help="Share of sentences whose nearest neighbour must stay."),
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
    json: Json = False,
) -> None:
    """Write an artefact that runs without keras_msd, and prove it in its runtime."""
    from keras_msd import load_encoder
    from keras_msd.evaluate import read_sts_folder
    from keras_msd.export import export as export_encoder
    from keras_msd.export import read_card

    settings = output.given(
        format=format_,
        quantize=quantize,
        opset=opset,
        min_cosine=min_cosine,
        max_sts_loss=max_sts_loss,
        min_neighbours=min_neighbours,
        license=license_,
        teacher_license=teacher_license,
        data_license=data_license,
    )
    trained = codes(languages)
    if data:
        # A set has files for fewer languages than an encoder knows.
        folder = data / "sts"
        names = {code: f"{sts}.{split}.{code}.tsv.gz" for code in trained}
        scored = [code for code, name in names.items() if (folder / name).is_file()]
        settings["sts"] = read_sts_folder(folder, scored, split, sts)
        settings["sts_name"] = f"{sts} {split} in {', '.join(settings['sts'])}"
    written = export_encoder(load_encoder(encoder), path, languages=trained, **settings)
    card = read_card(written)
    shown = {key: card[key] for key in ("format", "quantize", "bytes", "parity")}
    output.show({"artefact": str(written)} | shown, json, output.export_text)
