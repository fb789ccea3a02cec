"""From paths, folders and patterns to a corpus, and to the texts of some languages."""

import glob
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.data.pair import PairFile, Pairs
from keras_msd.data.readers import READERS, Reader
from keras_msd.data.readers.lines import language_of, unpacked
from keras_msd.registry import loaded

ENGLISH = "en"


def read_pairs(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    language: str | None = None,
) -> Pairs:
    r"""Open parallel corpora; the sentences are read when the result is walked through.

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

    Example:
        >>> from pathlib import Path
        >>> _ = Path("news.en-de.tsv").write_text("A house.\tEin Haus.\n")
        >>> list(msd.data.read_pairs("news.en-de.tsv"))
        [Pair(source='A house.', target='Ein Haus.', language='de')]
    """
    given = None if format is None else READERS[format]
    files: dict[tuple[Path, str], PairFile] = {}
    for path in _expanded(paths, given):
        for file in _opened(path, given or _reader_of(path), language):
            files.setdefault((file.paths[0], file.language), file)
    return Pairs(files.values())


def _reader_of(path: Path) -> Reader | None:
    claimants = [reader for reader in READERS.values() if reader.claims]
    return READERS.of_suffix(unpacked(path).suffix) or next(
        (reader for reader in claimants if loaded(reader.claims)(path)), None
    )


def _expanded(
    paths: str | Path | Iterable[str | Path], given: Reader | None
) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if path.is_dir():
            here = [file for file in sorted(path.iterdir()) if file.is_file()]
            usable = [file for file in here if given or _reader_of(file)]
            if not usable:
                raise InputError(
                    f"The folder `{path}` holds no parallel corpus. Known: "
                    f"{READERS.words()}. Files inside its folders are not looked for."
                )
            files += usable
        elif path.exists():
            files.append(path)
        else:
            matches = sorted(Path(name) for name in glob.glob(str(path)))
            if not matches:
                raise InputError(
                    f"The corpus file `{path}` does not exist. Give the path of a file "
                    "or a folder, or a pattern that matches files."
                )
            files += matches
    if not files:
        raise InputError("`paths` must name a file. Received: an empty list.")
    return files


def _opened(path: Path, reader: Reader | None, language: str | None) -> list[PairFile]:
    if reader is None:
        raise InputError(
            f"`{path}`: the format is not clear from the name. Known: "
            f"{READERS.words()}. Give `format`, one of {', '.join(READERS)}."
        )
    if reader.opens:
        return loaded(reader.opens)(path, language)
    code = language_of(path)
    if code is not None and language not in (None, code):
        raise InputError(
            f"`language` contradicts the name of `{path}`. Received: "
            f"language={language!r}, {code!r} in the name. Leave `language` out."
        )
    code = code or language
    if code is None and reader.language:
        code = loaded(reader.language)(path)
    if code is None:
        raise InputError(
            f"`{path}`: the language is not clear. Name the file "
            f"`<corpus>.en-<xx>{reader.suffixes[0]}` or give `language`."
        )
    read = partial(loaded(reader.read), path, code)
    return [PairFile(path.name, code, read, (path,))]


class LanguageTexts:
    """Sentences as they stand in the files, read anew each time one walks through.

    English ones are taken from the corpora of the other languages asked for, and from
    all of them if English is the only one.

    Args:
        data_dir: Folder with `parallel/train/<corpus>.en-<xx>.tsv.gz`.
        languages: Codes as in the names of the files, or "en".

    Raises:
        InputError: The folder or a language is not there.
    """

    def __init__(self, data_dir: str | Path, languages: Sequence[str]) -> None:
        folder = existing_folder(Path(data_dir) / "parallel" / "train", "data folder")
        pairs = read_pairs(folder)
        known = [ENGLISH, *sorted(pairs.languages)]
        if isinstance(languages, str) or not languages:
            raise InputError(
                "`languages` must be a list of one code or more. Received: "
                f"{languages!r}. `{folder}` has {', '.join(known)}."
            )
        for code in languages:
            if code not in known:
                hint = nearest(str(code), known) or "Give one that is there."
                raise InputError(
                    f"`languages` must be among those of `{folder}`: "
                    f"{', '.join(known)}. Received: {code!r}. {hint}"
                )
        self.languages = frozenset(languages)
        others = self.languages - {ENGLISH} or set(known)
        self.files = [file for file in pairs.files if file.language in others]

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            codes = (ENGLISH, file.language)
            sides = [i for i, code in enumerate(codes) if code in self.languages]
            for pair in file.iterate():
                yield from (pair[side] for side in sides)
