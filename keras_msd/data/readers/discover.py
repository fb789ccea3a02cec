"""From paths, folders and patterns to a corpus."""

import glob
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.pair import PairFile, Pairs
from keras_msd.data.readers import READERS, gettext, jsonl, names, reader, tmx

KNOWN = (
    ".tsv, .tmx, .jsonl, .po, .mo (each also .gz), or two files `x.en` and "
    "`x.<language>`"
)


def read_pairs(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    language: str | None = None,
) -> Pairs:
    """Open parallel corpora; the sentences are read when the result is walked through.

    The language stands in the name, `<corpus>.en-<xx>.tsv.gz`, in the suffix of a
    Moses file, or in a TMX, JSON Lines or gettext file itself; otherwise give
    `language`.

    Args:
        paths: A file, a folder (its files, not those of folders inside), a pattern
            such as `data/*.en-de.tsv.gz`, or a list of those.
        format: A name in `READERS`; by default the suffix decides.
        language: Code of the language beside English, where no name says it; of
            several translations that lie beside an `x.en`, the one to read.

    Raises:
        InputError: Nothing is found, a format or language is not clear, or `language`
            contradicts a name.
    """
    if format is not None:
        checks.one_of(READERS, format=format)
    files: dict[tuple[Path, str], PairFile] = {}
    for path in _expand(paths, format):
        for file in _open(path, format or names.format_of(path), language):
            files.setdefault((file.paths[0], file.language), file)
    return Pairs(files.values())


def _expand(paths: str | Path | Iterable[str | Path], format: str | None) -> list[Path]:
    if isinstance(paths, str | Path):
        paths = [paths]
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            here = [file for file in sorted(path.iterdir()) if file.is_file()]
            usable = [file for file in here if format or names.format_of(file)]
            if not usable:
                raise InputError(
                    f"The folder `{path}` holds no parallel corpus. Known: {KNOWN}. "
                    "Files inside its folders are not looked for."
                )
            found += usable
        elif path.exists():
            found.append(path)
        else:
            matches = sorted(Path(name) for name in glob.glob(str(path)))
            if not matches:
                raise InputError(
                    f"The corpus file `{path}` does not exist. Give the path of a file "
                    "or a folder, or a pattern that matches files."
                )
            found += matches
    if not found:
        raise InputError("`paths` must name a file. Received: an empty list.")
    return found


def _open(path: Path, format: str | None, language: str | None) -> list[PairFile]:
    if format is None:
        raise InputError(
            f"`{path}`: the format is not clear from the name. Known: {KNOWN}. Give "
            f"`format`, one of {', '.join(READERS)}."
        )
    if format == "moses":
        return _open_moses(path, language)
    code = names.language_of(path)
    if code is not None and language not in (None, code):
        raise InputError(
            f"`language` contradicts the name of `{path}`. Received: "
            f"language={language!r}, {code!r} in the name. Leave `language` out."
        )
    code = code or language or _look_inside(path, format)
    if code is None:
        raise InputError(
            f"`{path}`: the language is not clear. Name the file "
            f"`<corpus>.en-<xx>.{format}` or give `language`."
        )
    read = partial(reader(format), path, code)
    return [PairFile(path.name, code, read, (path,))]


def _look_inside(path: Path, format: str) -> str | None:
    if format == "tsv":
        return None
    inside = {"gettext": gettext, "jsonl": jsonl, "tmx": tmx}
    return inside[format].first_language(path)


def _open_moses(path: Path, language: str | None) -> list[PairFile]:
    english = names.moses_english(path)
    own = Path(names.unpacked_name(path)).suffix[1:]
    if english is None:
        raise InputError(
            f"`{path}` needs the English file `{Path(names.unpacked_name(path)).stem}"
            ".en` beside it. Received: none. Put both files in one folder."
        )
    if english != path:
        codes = [own]
    else:
        codes = [language] if language else names.moses_languages(english)
    if not codes:
        stem = Path(names.unpacked_name(english)).stem
        raise InputError(
            f"`{english}` needs a file `{stem}.<language>` beside it. Received: none. "
            "Put both files in one folder."
        )
    files = []
    for code in codes:
        other = names.moses_partner(english, code)
        name = f"{Path(names.unpacked_name(english)).stem}.en-{code}"
        read = partial(reader("moses"), english, code)
        files.append(PairFile(name, code, read, (english, other)))
    return files
