"""The forms of one event in one language, as the cells of the tables give them."""

from typing import NamedTuple

from keras_msd.data.made.meaning import Event

# Objects that are bound to their verb: "to school", "(play) football".
BOUND = {"sport", "instrument", "near", "far"}


class Forms(NamedTuple):
    """Words of an event, ready to be put in order.

    Attributes:
        subject: Noun phrase, with article and adjective.
        gender: `m` or `f`, of the subject in this language.
        verb: Forms in the order of the language's column.
        preposition: Stands before the object, may be empty.
        prefix: Of a separable verb, may be empty.
        object: Noun phrase in the case that the verb wants, may be empty.
        negative_object: The object after a negation as the table has it, may be empty.
        object_class: First class of the object, empty without one.
        place: May be empty.
    """

    subject: str
    gender: str
    verb: list[str]
    preposition: str
    prefix: str
    object: str
    negative_object: str
    object_class: str
    place: str


def forms(event: Event, language: str) -> Forms:
    """Look up the words of `event`."""
    subject, gender = _subject(event, language)
    verb, preposition, prefix = [], "", ""
    for token in event.verb.cells[language].split():
        token = token.replace("_", " ")
        if token.startswith("+"):
            preposition = token[1:]
        elif token.startswith("~"):
            prefix = token[1:]
        else:
            verb.append(token)
    plain, negative, kind = "", "", ""
    if event.object is not None:
        plain, _, negative = event.object.cells[language].partition("/")
        kind = event.object.listed("classes")[0]
    place = event.place.cells[language] if event.place else ""
    return Forms(
        subject, gender, verb, preposition, prefix, plain, negative, kind, place
    )


def choose(text: str, gender: str) -> str:
    """Take the masculine or the feminine of `masculine/feminine`."""
    masculine, _, feminine = text.partition("/")
    return feminine if gender == "f" and feminine else masculine


def _subject(event: Event, language: str) -> tuple[str, str]:
    noun = event.subject.cells[language]
    gender = event.subject.facts["gender"]
    if noun.startswith(("m:", "f:")):
        gender, _, noun = noun.partition(":")
    if event.adjective is None:
        return noun, gender
    adjective = choose(event.adjective.cells[language], gender)
    if language == "tr":
        return f"{adjective} {noun}", gender
    if language in ("en", "de", "nl"):
        article, _, rest = noun.partition(" ")
        return f"{article} {adjective} {rest}", gender
    return f"{noun} {adjective}", gender
