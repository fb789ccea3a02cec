"""The kinds of tokenizer: how each is recognised, read, put in a graph and trimmed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, existing_folder, placed
from keras_msd.files import read_bytes, read_table
from keras_msd.limits import VOCABULARY
from keras_msd.registry import Record, Registry, loaded, read_records
from keras_msd.tokenizers.base import CONFIG, Tokenizer


@dataclass(frozen=True, kw_only=True)
class TokenizerKind(Record):
    """One kind of tokenizer; whatever is a path is loaded when it is first needed.

    Attributes:
        implementation: The subclass of `Tokenizer` whose `kind` is `name`, or its
            dotted path.
        checkpoint_files: Sets of file names. A checkpoint's folder that has no
            tokenizer.json but all files of one set has a tokenizer of this kind.
        json_model: Type of the model in a tokenizer.json of this kind, as the
            `tokenizers` library names its class.
        graph: Makes of a tokenizer a `tf.Module` that maps strings `(n,)` to a ragged
            int32 tensor of ids without start and end; a function, class or dotted
            path. None where no TensorFlow operation gives the ids.
        trimming: Makes a `tokenizers.trim.Trimming`; a class or dotted path. None where
            a vocabulary cannot lose pieces.

    Example:
        >>> unigram = msd.tokenizers.TOKENIZERS["unigram"]
        >>> unigram.tokenizer_class.definition_file
        'sentencepiece.model'
    """

    implementation: type[Tokenizer] | str
    checkpoint_files: tuple[tuple[str, ...], ...] = ()
    json_model: str = ""
    graph: Callable[[Any], Any] | str | None = None
    trimming: Callable[[], Any] | str | None = None

    @property
    def tokenizer_class(self) -> type[Tokenizer]:
        """The class of its tokenizers.

        Raises:
            InputError: The class says that it is of another kind.
        """
        tokenizer_class = loaded(self.implementation)
        if getattr(tokenizer_class, "kind", None) != self.name:
            raise InputError(
                f"The `implementation` of the kind `{self.name}` must have the `kind` "
                f"{self.name!r}. Received: {tokenizer_class!r}. Give the class that "
                "attribute."
            )
        return tokenizer_class


TOKENIZERS = Registry(
    "kind", *read_records(TokenizerKind, Path(__file__).with_name("kinds.toml"))
)


def part_of_kind(tokenizer: Tokenizer, part: str, what: str, repair: str) -> Any:
    """Return what a tokenizer's kind has as its `part`, loaded.

    Args:
        tokenizer: Of any kind.
        part: "graph" or "trimming".
        what: What needs the part, for the message.
        repair: What to do without it.

    Raises:
        InputError: The kind has none.
    """
    value = getattr(TOKENIZERS[tokenizer.kind], part)
    if value is None:
        kinds = [name for name, kind in TOKENIZERS.items() if getattr(kind, part)]
        raise InputError(
            f"{what} must be of kind {' or '.join(kinds)}. Received: "
            f"{tokenizer.kind}. {repair}"
        )
    return loaded(value)


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    Raises:
        InputError: A file is missing or damaged, or the folder is a checkpoint's.

    Example:
        >>> msd.testing.tiny_tokenizer().save("tokenizer")
        >>> msd.tokenizers.load_tokenizer("tokenizer").encode([""])
        [[0, 2]]
    """
    folder = existing_folder(folder, "tokenizer folder")
    settings = read_table(folder / CONFIG)
    if "kind" not in settings:
        raise InputError(
            f"`{folder / CONFIG}` must name the `kind` of tokenizer and does not. "
            "Give a folder that `save` wrote; `read_checkpoint_tokenizer` reads those "
            "of published checkpoints."
        )
    kind = str(settings.pop("kind"))
    with placed(folder / CONFIG):
        definition_file = TOKENIZERS[kind].tokenizer_class.definition_file
    path = existing_file(folder / definition_file)
    content = read_bytes(path, VOCABULARY, "Save the tokenizer anew.")
    return make_tokenizer(kind, content, settings, f"`{path}`")


def make_tokenizer(
    kind: str, definition: bytes, settings: dict[str, Any], origin: str
) -> Tokenizer:
    """Make a tokenizer from its `kind`, `definition` and `settings`.

    Args:
        kind: Its name in `TOKENIZERS`.
        definition: As the tokenizer has it.
        settings: As the tokenizer has them.
        origin: Where they come from, for messages.

    Raises:
        InputError: The kind is unknown, or the definition is damaged.
    """
    tokenizer_class = TOKENIZERS[kind].tokenizer_class
    return tokenizer_class.from_definition(definition, settings, origin)


def read_checkpoint_tokenizer(
    folder: str | Path, family: str | None = None
) -> Tokenizer:
    """Read the tokenizer of a published checkpoint.

    The tokenizer's own files say what it is, not the model: multilingual MiniLM is a
    BERT body with the SentencePiece vocabulary of XLM-RoBERTa. Truncation and padding
    stored in a tokenizer.json are ignored.

    Args:
        folder: Where the tokenizer's files lie.
        family: `model_type` of the model beside it, for messages.

    Raises:
        InputError: No known tokenizer file is there, or one is damaged.

    Example:
        >>> from pathlib import Path
        >>> lines = "[PAD] [UNK] [CLS] [SEP] cat ##s".replace(" ", chr(10))
        >>> _ = Path("vocab.txt").write_text(lines)
        >>> msd.tokenizers.read_checkpoint_tokenizer(".").encode(["Cats"])
        [[2, 4, 5, 3]]
    """
    folder = existing_folder(folder, "checkpoint folder")
    path = folder / "tokenizer.json"
    if path.is_file():
        kind = _kind_of_json(path)
    else:
        kind = _kind_of_files(folder, f"the {family} model" if family else "the model")
    return kind.tokenizer_class.from_checkpoint(folder)


def _kind_of_json(path: Path) -> TokenizerKind:
    from keras_msd.tokenizers.tokenizer_json import read_backend

    # The library also knows the models of old files, which do not name their type.
    content = read_bytes(path, VOCABULARY, "Take a checkpoint with a smaller one.")
    model = type(read_backend(content, f"`{path}`").model).__name__
    kinds = {kind.json_model: kind for kind in TOKENIZERS.values() if kind.json_model}
    if model not in kinds:
        raise InputError(
            f"The model in `{path}` must be one of {', '.join(kinds)}. "
            f"Received: {model}. Take a checkpoint with another tokenizer."
        )
    return kinds[model]


def _kind_of_files(folder: Path, owner: str) -> TokenizerKind:
    there = {path.name for path in folder.iterdir()}
    for kind in TOKENIZERS.values():
        if any(there.issuperset(names) for names in kind.checkpoint_files):
            return kind
    known = ["tokenizer.json"]
    for kind in TOKENIZERS.values():
        known += [" and ".join(names) for names in kind.checkpoint_files[:1]]
    raise InputError(
        f"`{folder}` holds no tokenizer for {owner}. Copy there {', '.join(known[:-1])}"
        f", or {known[-1]}, whichever the checkpoint was published with."
    )
