"""Which words go together."""

from keras_msd.data.made.lexicon import Entry
from keras_msd.data.made.meaning import Event

CONSUMED = {"food", "drink"}


def fits(event: Event, tense: str) -> bool:
    """Whether an event makes sense in a tense (`n`, `h`, `p`, `i`)."""
    verb, subject = event.verb, event.subject
    if (event.object is None) == bool(verb.listed("objects")):
        return False
    if event.adjective is not None and subject.facts["kind"] != "p":
        return False
    if event.place is not None and not takes_place(verb, subject, event.place):
        return False
    return (
        tense in verb.facts["tenses"]
        and acts(verb, subject)
        and (event.object is None or takes_object(verb, subject, event.object))
    )


def acts(verb: Entry, subject: Entry) -> bool:
    """Whether the subject, a person, relative (`p`, `f`) or animal (`a`), does this."""
    kind = "a" if is_animal(subject) else "p"
    return kind in verb.facts["who"]


def takes_object(verb: Entry, subject: Entry, thing: Entry) -> bool:
    """Whether the verb takes the object, which must be another than the subject."""
    classes = set(thing.listed("classes"))
    if not classes & set(verb.listed("objects")) or _noun(thing) == _noun(subject):
        return False
    return not is_animal(subject) or not classes & CONSUMED or "raw" in classes


def takes_place(verb: Entry, subject: Entry, place: Entry) -> bool:
    """Whether it can happen there; animals stay out of rooms."""
    kinds = set(place.listed("kinds"))
    if not kinds & set(verb.listed("places")):
        return False
    return not is_animal(subject) or bool(kinds & {"out", "water"})


def is_animal(subject: Entry) -> bool:
    """Whether a subject is an animal."""
    return subject.facts["kind"] == "a"


def _noun(entry: Entry) -> str:
    return entry.cells["en"].split()[-1]
