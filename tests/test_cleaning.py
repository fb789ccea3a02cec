import unicodedata

import pytest

from keras_msd.checks import InputError
from keras_msd.data.pair import Cleaning, normalize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  two\t\twords \n", "two words"),
        ("e\u0301te\u0301", "été"),
        ("a\u00a0b\u3000c\u2028d", "a b c d"),
        ("x\x00y\x7fz\x9f", "x y z"),
        ("\ufeffso\u00adft zero\u200bwidth\u2060", "soft zerowidth"),
        ("👩\u200d🚀 می\u200cخواهم", "👩\u200d🚀 می\u200cخواهم"),
        ("e\u200b\u0301", "é"),
        ("\x01 \x02", ""),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected
    assert normalize(expected) == expected
    assert unicodedata.is_normalized("NFC", normalize(text))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "Haus", "empty"),
        ("house", "", "empty"),
        ("ab", "Haus", "short"),
        ("abc", "abc", None),
        ("x" * 50, "y" * 50, None),
        ("x" * 51, "y" * 50, "long"),
        ("a a a a a", "y" * 9, None),
        ("y" * 11, "a a a a a a", "long"),
        ("x" * 30, "y" * 10, None),
        ("x" * 31, "y" * 10, "ratio"),
        ("y" * 10, "x" * 31, "ratio"),
        ("x" * 19, "y" * 4, None),  # too short for the ratio to mean something
        ("x" * 33, "中" * 11, None),  # 33 bytes each
        ("x" * 10, "中" * 11, "ratio"),
    ],
)
def test_reasons(source, target, reason):
    rules = Cleaning(min_chars=3, max_chars=50, max_words=5, max_ratio=3, ratio_from=20)
    assert rules.reason(source, target) == reason


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"min_chars": 0}, "min_chars"),
        ({"max_words": 0}, "max_words"),
        ({"max_ratio": 0.5}, "max_ratio"),
        ({"max_chars": 5, "min_chars": 6}, "max_chars"),
    ],
)
def test_wrong_options(options, name):
    with pytest.raises(InputError, match=name):
        Cleaning(**options)
