"""All sentences of some languages in a folder of parallel corpora."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.data.pair import PairFile
from keras_msd.data.readers.discover import read_pairs

ENGLISH = "en"


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
            yield from self._sides(file)

    def _sides(self, file: PairFile) -> Iterator[str]:
        english, other = ENGLISH in self.languages, file.language in self.languages
        for source, target in file.iterate():
            if english:
                yield source
            if other:
                yield target
