"""Small changes of a meaning, for pairs that are alike to a degree."""

from collections.abc import Callable
from dataclasses import replace

from keras_msd.data.made.draw import Draw
from keras_msd.data.made.lexicon import Entry, table
from keras_msd.data.made.meaning import Event, Meaning


def change(meaning: Meaning, draw: Draw) -> Meaning:
    """Return `meaning` in other words, with none to three of its parts changed."""
    parts = ["subject", "adjective", "verb", "object", "place", "weather", "negated"]
    for _ in range(int(draw.uniform() * 4)):
        meaning = CHANGES[draw.pick(parts)](meaning, draw)
    return reword(meaning, draw)


def reword(meaning: Meaning, draw: Draw) -> Meaning:
    """Put the meaning in a template of the same frame, mostly of the same mode."""
    same_mode = draw.uniform() < 0.8
    fitting = [
        template
        for template in table("templates")
        if template.held_out
        and meaning.tense in template.facts["tense"]
        and template.facts["parts"] == meaning.template.facts["parts"]
        and (not same_mode or template.facts["mode"] == meaning.template.facts["mode"])
    ]
    return replace(meaning, template=draw.pick(fitting))


def _subject(meaning: Meaning, draw: Draw) -> Meaning:
    event = meaning.event
    subject = draw.pick(draw.subjects(event.verb))
    keeps = subject.facts["kind"] == "p"
    return _with(meaning, subject=subject, adjective=event.adjective if keeps else None)


def _adjective(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.event.subject.facts["kind"] != "p":
        return meaning
    return _with(meaning, adjective=draw.pick([None, *draw.allowed("adjectives")]))


def _verb(meaning: Meaning, draw: Draw) -> Meaning:
    event = meaning.event
    classes = set(event.object.listed("classes")) if event.object else set()
    fitting = [
        verb
        for verb in draw.verbs(meaning.tense)
        if bool(verb.listed("objects")) == bool(classes)
        and (not classes or classes & set(verb.listed("objects")))
        and (event.place is None or _meets(verb, event.place))
        and (event.subject.facts["kind"] != "a" or "a" in verb.facts["who"])
    ]
    return _with(meaning, verb=draw.pick(fitting)) if fitting else meaning


def _object(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.event.object is None:
        return meaning
    fitting = draw.objects(meaning.event.verb, meaning.event.subject)
    return _with(meaning, object=draw.pick(fitting))


def _place(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.event.place is None:
        return meaning
    fitting = draw.places(meaning.event.verb, meaning.event.subject)
    return _with(meaning, place=draw.pick(fitting))


def _weather(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.weather is None:
        return meaning
    return replace(meaning, weather=draw.pick(table("weather")))


def _negated(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.tense == "i":
        return meaning
    return _with(meaning, negated=not meaning.event.negated, place=None)


def _meets(verb: Entry, place: Entry) -> bool:
    return bool(set(verb.listed("places")) & set(place.listed("kinds")))


def _with(meaning: Meaning, **parts: object) -> Meaning:
    event: Event = replace(meaning.event, **parts)  # type: ignore[arg-type]
    return replace(meaning, event=event)


CHANGES: dict[str, Callable[[Meaning, Draw], Meaning]] = {
    "subject": _subject,
    "adjective": _adjective,
    "verb": _verb,
    "object": _object,
    "place": _place,
    "weather": _weather,
    "negated": _negated,
}
