"""BUCC 2018 becomes `bucc2018/<xx>-en/`, its files as its home lays them out."""

import re
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.corpora.archives import Lines, tar_lines
from keras_msd.data.corpora.catalogue import Corpus, Portion
from keras_msd.data.corpora.parallel import Rows
from keras_msd.files import atomic_path


def bucc(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Copy `<xx>-en.<part>.<xx|en|gold>`: lines of two fields, texts as they are."""
    pair = f"{portion.code}-en"
    rows: Rows = {}
    for file in files:
        part = re.sub(r".*\.(\w+)-gold\..*", r"\1", file.name)
        wanted = [f"{pair}.{part}.{end}" for end in (portion.code, "en", "gold")]
        found = set()
        for member, lines in tar_lines(file):
            name = member.rpartition("/")[2]
            if name in wanted:
                path = f"bucc2018/{pair}/{name}"
                rows[path] = _copy(lines, f"{file}, member {member}", out / path)
                found.add(name)
        if missing := [name for name in wanted if name not in found]:
            raise InputError(
                f"`{file}` must hold {', '.join(wanted)}. Missing: "
                f"{', '.join(missing)}. Delete it and give the command again."
            )
    return rows


def _copy(lines: Lines, source: str, path: Path) -> int:
    number = 0
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as out,
    ):
        for number, line in lines:
            if line.count("\t") != 1:
                raise InputError(
                    f"`{source}`, line {number}: a line must have two fields, with a "
                    f"tab between. Received: {line!r:.80}. Delete the archive and give "
                    "the command again."
                )
            out.write(line + "\n")
    return number
