"""The commands `keras-msd data ...`: make a corpus, or get one from its home."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import output
from keras_msd.cli.output import Json

data_app = typer.Typer(
    help="Make data, or get it.", no_args_is_help=True, rich_markup_mode=None
)


def codes(text: str) -> list[str]:
    """Split language codes at commas."""
    return [code.strip() for code in text.split(",") if code.strip()]


@data_app.command(
    "made", epilog="Example: keras-msd data made DATA --pairs 1000 --languages de,fr"
)
def made(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    pairs: Annotated[int, typer.Option(help="Pairs for each language.")] = 1000,
    languages: Annotated[str, typer.Option(help="Codes, with commas.")] = "de,fr",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    json: Json = False,
) -> None:
    """Write the made corpus: parallel sentences and a graded similarity set."""
    from keras_msd.data.made import write_made_data

    write_made_data(folder, languages=codes(languages), pairs=pairs, seed=seed)
    output.show({"data": str(folder)}, json, output.lines_text)


@data_app.command(
    "get", epilog="Example: keras-msd data get ted2020 --languages de,fr --out DATA"
)
def get(
    name: Annotated[
        str,
        typer.Argument(
            help="ted2020, wikimatrix, europarl, news-commentary, tatoeba, sts2017, "
            "sts2017-extended, stsb-multi-mt or bucc2018."
        ),
    ],
    languages: Annotated[
        str, typer.Option(help="Codes beside English, with commas; all if left out.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Data folder to write.")] = Path("data"),
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask: the licence is accepted.")
    ] = False,
    json: Json = False,
) -> None:
    """Fetch a public corpus, verify it and write it as TSV; broken off, it goes on.

    Size, checksum and licence are shown first. With KERAS_MSD_MIRROR=http://host/path
    in the environment, `https://a.b/file` is asked for at
    `http://host/path/a.b/file`.
    """
    from keras_msd.data.corpora import get_corpus

    def agree(plan: dict[str, Any]) -> bool:
        output.write(plan_text(plan), stderr=True)
        if yes or not plan["files"]:
            return True
        if not sys.stdin.isatty():
            raise InputError(
                "The download must be agreed to. Received: no terminal to ask at. Read "
                "the licence above, then add --yes."
            )
        return typer.confirm("Download?", err=True)

    result = get_corpus(name, codes(languages) or None, out, agree)
    output.show(result, json, result_text)
    if not result["done"]:
        raise typer.Exit(1)


def plan_text(plan: dict[str, Any]) -> Iterable[Any]:
    """Yield what a download is: corpus, licence, and files."""
    yield plan["title"]
    yield f"Home: {plan['home']}"
    yield f"Licence: {plan['licence']}"
    yield f"Checksums: {plan['checksums']}"
    if plan["note"]:
        yield f"Note: {plan['note']}"
    if not plan["files"]:
        yield "Nothing to fetch: all of it is here."
        return
    for file in plan["files"]:
        size = "not said" if file["bytes"] is None else f"{file['bytes']:,}"
        checksum = f"SHA-256 {file['sha256']}" if file["sha256"] else "by size only"
        place = "here" if file["here"] else file["url"]
        yield f"{file['name']}: {size} bytes, {checksum}, {place}"
    missing = [file for file in plan["files"] if not file["here"]]
    total = sum(file["bytes"] or 0 for file in missing)
    unknown = sum(file["bytes"] is None for file in missing)
    more = f", {unknown} of a size that their home does not say" if unknown else ""
    yield f"To fetch: {len(missing)} files, {total:,} bytes{more}"


def result_text(result: dict[str, Any]) -> Iterable[str]:
    """Yield what was verified how, and the files that were written."""
    if not result["done"]:
        yield "Nothing was fetched."
        return
    for file in result["files"]:
        yield f"{file['name']}: SHA-256 {file['sha256']}, {VERIFIED[file['verified']]}"
    for path, rows in sorted(result["outputs"].items()):
        yield f"{path}: {rows:,} rows"


VERIFIED = {
    "sha256": "as it should be",
    "size": "recorded, not verified: none is published; the size is right",
    "nothing": "recorded, not verified: neither it nor the size is published",
}
