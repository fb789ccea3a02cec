"""Archives as the homes of corpora give them, and their conversion."""

import io
import random
import tarfile
import zipfile

import pytest

from keras_msd.checks import InputError
from keras_msd.data.corpora import corpus
from keras_msd.data.corpora.convert import CONVERTERS


def zipped(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def tarred(path, members):
    with tarfile.open(path, "w:bz2") as archive:
        for name, data in members:
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                archive.addfile(info)
    return path


def lines(texts):
    return "".join(text + "\n" for text in texts).encode()


def moses(path, english, other, code="de", more=()):
    pair = "-".join(sorted(("en", code)))
    members = [("README", b"x"), (f"TED2020.{pair}.en", lines(english))]
    members += [(f"TED2020.{pair}.{code}", lines(other)), (f"TED2020.{pair}.xml", b"")]
    return zipped(path, [*members, *more])


def convert(name, files, out, languages=("de",)):
    one = corpus(name)
    (portion,) = one.portions(languages)[-1:]
    files = files if isinstance(files, list) else [files]
    return CONVERTERS[one.converter](one, portion, files, out)


def fails(match, *arguments, **options):
    out = arguments[2]
    with pytest.raises(InputError, match=f"(?s){match}"):
        convert(*arguments, **options)
    assert [path for path in out.rglob("*") if path.is_file()] == [], "nothing is left"


def bucc_members(part, text=b"x-1\tA b\n"):
    ends = ("de", "en", "gold")
    return [(f"bucc2018/de-en/de-en.{part}.{end}", text) for end in ends]


def sentences():
    draw = random.Random(5)
    words = ["tea", "Haus", "naïve", "river", "of", "Oslo", "blue", "42", "cat", "rain"]
    return [" ".join(draw.choices(words, k=6)) + f" {i}." for i in range(4000)]
