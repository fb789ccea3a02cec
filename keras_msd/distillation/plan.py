"""Where `distil` starts, and the plan that it prints."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checkpoints.packaged import (
    backbone_files,
    backbone_is_installed,
    is_installed,
    is_packaged,
    known_languages,
    packaged_folder,
)
from keras_msd.io.files import read_json
from keras_msd.load import check_source
from keras_msd.teachers.teacher import default_is_installed

PAIRS, TABLE, SMALL, BACKBONE = "pairs", "tiny12", "small12", "e5-small"
LAYERS_MB = 8.0  # below this, no transformer layers fit beside a vocabulary
DEFAULT_MB = 16.0

# The languages of XLM-R, whose tokenizer and initial weights e5-small has.
BACKBONE_LANGUAGES = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd "
    "gl gu ha he hi hr hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml "
    "mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl so sq sr su sv sw ta "
    "te th tl tr ug uk ur uz vi xh yi zh"
).split()


class Start(NamedTuple):
    """Where training starts.

    Attributes:
        source: What `load_encoder` opens; "pairs" for the ridge baseline.
        vocabulary: An encoder whose tokens it also gets, or None.
        teacher: What `load_teacher` opens; None for the start as it is before it is cut
            to size.
        table: Whether it is a token embedding table, without transformer layers.
        reason: Why it was chosen, for people.
    """

    source: Any
    vocabulary: str | None
    teacher: Any
    table: bool
    reason: str


def backbones() -> list[str]:
    """Return the names of the installed encoders that have transformer layers."""
    found = [SMALL] if is_installed(SMALL) else []
    return [*found, BACKBONE] if backbone_is_installed(BACKBONE) else found


def default_start(
    languages: Collection[str], max_mb: float | None, teacher: Any = None
) -> Start:
    """Return the start for some languages and a size.

    Args:
        languages: Codes of all languages of the texts.
        max_mb: Maximum size of the file in megabytes.
        teacher: The teacher that was asked for, or None.

    Raises:
        InputError: Neither a backbone for the languages nor the default teacher is
            installed.
    """
    there = backbones()
    known = set(known_languages(SMALL))
    other = sorted(set(languages) - known)
    why_table, small = None, max_mb is not None and max_mb < LAYERS_MB
    if teacher is not None and teacher not in there:
        why_table = "the teacher is not a backbone"
    elif not there:
        why_table = "no backbone is installed"
    elif small:
        why_table = f"transformer layers need {LAYERS_MB:g} MB"
    elif BACKBONE not in there and other:
        why_table = f"{SMALL} does not know {', '.join(other)}, and {BACKBONE}, which "
        why_table += "may, is not installed"
    if why_table:
        if teacher is None and not small and not default_is_installed():
            backbone_files(BACKBONE)  # raises an error that says how to install it
        default = teacher in (None, "default")
        start = TABLE if default and is_installed(TABLE) and not max_mb else PAIRS
        return Start(start, None, teacher or "default", True, why_table)
    if BACKBONE not in there or (SMALL in there and not other):
        return Start(SMALL, None, teacher, False, f"{SMALL} knows these languages")
    if SMALL not in there:
        return Start(BACKBONE, None, teacher, False, f"{BACKBONE} is installed")
    reason = f"layers of {SMALL}, tokens of {BACKBONE} for {', '.join(other)}"
    if unknown := sorted(set(other) - set(BACKBONE_LANGUAGES)):
        reason += f"; neither was trained on {', '.join(unknown)}"
    return Start(SMALL, BACKBONE, teacher, False, reason)


def named_start(source: Any, teacher: Any = None) -> Start:
    """Return the start that was asked for.

    Args:
        source: "pairs", or what `load_encoder` opens.
        teacher: The teacher that was asked for, or None.

    Raises:
        InputError: The source does not exist.
    """
    asked = "as you asked"
    if source == PAIRS:
        return Start(PAIRS, None, teacher or "default", True, asked)
    check_source(source, "start")
    if _is_table(source):
        return Start(source, None, teacher or "default", True, asked)
    return Start(source, None, teacher, False, asked)


def _is_table(source: Any) -> bool:
    """Tell whether an encoder has no transformer layers, before it is loaded."""
    folder = packaged_folder(str(source)) if is_packaged(source) else Path(source)
    config = folder / "encoder.json"
    return config.is_file() and read_json(config)["config"]["num_layers"] == 0


@dataclass(frozen=True)
class Plan:
    """What is made.

    Attributes:
        start: Where training starts.
        teacher: Name of the teacher.
        reason: Why that start.
        languages: Codes of the languages.
        words: Those of them whose word frequencies help to choose the vocabulary.
        tokens: Size of the vocabulary.
        num_layers: Transformer layers.
        num_heads: Attention heads of a layer.
        intermediate_dim: Neurons of a feed-forward layer.
        pruned: Whether heads or neurons of the start are gone.
        coverage: Share of the tokens of such texts that the vocabulary is expected to
            have.
        loss: Expected loss before training, in points of P@1 on short sentences.
        expected_bytes: Expected size of the file.
        max_mb: What was asked for, in megabytes.
        steps: Training steps.
        minutes: Expected minutes of training.
    """

    start: str
    teacher: str
    reason: str
    languages: list[str]
    words: list[str]
    tokens: int
    num_layers: int
    num_heads: int
    intermediate_dim: int
    pruned: bool
    coverage: float | None
    loss: float | None
    expected_bytes: int
    max_mb: float | None
    steps: int
    minutes: float

    def values(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed plan."""
        yield f"Languages: {', '.join(self.languages)}"
        yield f"Start: {self.start} ({self.reason}); teacher: {self.teacher}"
        by = ", chosen with word frequencies" if self.words else ""
        if by and self.words != self.languages:
            by += f" of {', '.join(self.words)}"
        yield f"Vocabulary: {self.tokens:,} tokens{by}"
        if self.coverage is not None:
            cut = f"{100 * (1 - self.coverage):.1f} % of the tokens of such texts"
            yield (
                f"Expected loss: {self.loss:.1f} points of P@1 on short sentences, "
                f"before training. Cut: {cut}{', heads and neurons' * self.pruned}"
            )
        if self.num_layers:
            yield (
                f"Layers: {self.num_layers}, each with {self.num_heads} heads and "
                f"{self.intermediate_dim:,} neurons"
            )
        limit = "" if self.max_mb is None else f" of at most {self.max_mb:g} MB"
        yield f"File: about {self.expected_bytes / 1e6:.1f} MB{limit}, 4 bits a weight"
        if self.steps:
            yield f"Training: {self.steps:,} steps, about {self.minutes:.0f} minutes"
        else:
            yield "Training: none"
