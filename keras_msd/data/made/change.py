"""Small changes of a meaning, for pairs that are alike to a degree."""

from dataclasses import replace
from typing import Any

from keras_msd.data.made.draw import (
    Draw,
    allowed,
    objects,
    places,
    subjects,
    verbs,
)
from keras_msd.data.made.lexicon import Entry, table
from keras_msd.data.made.meaning import Event, Meaning
from keras_msd.data.made.sense import fits

PARTS = ("subject", "adjective", "verb", "object", "place", "weather", "negated")
SAME_MODE_RATE = 0.8


def change(meaning: Meaning, draw: Draw) -> Meaning:
    """Return `meaning` in other words, with none to three of its parts changed."""
    for _ in range(int(draw.uniform() * 4)):
        part = draw.pick(PARTS)
        if part == "weather":
            meaning = _weather(meaning, draw)
        elif part == "negated":
            meaning = _negated(meaning)
        else:
            meaning = replace(meaning, event=_other(meaning, part, draw))
    return _reworded(meaning, draw)


def _other(meaning: Meaning, part: str, draw: Draw) -> Event:
    """Return the event with another word for `part`, or as it is if none fits."""
    event, tense = meaning.event, meaning.tense
    if part in ("object", "place") and getattr(event, part) is None:
        return event
    if part == "adjective" and event.subject.facts["kind"] != "p":
        return event
    words = {
        "subject": subjects(event.verb, held_out=True),
        "adjective": allowed("adjectives", held_out=True),
        "verb": verbs(tense, held_out=True),
        "object": objects(event.verb, event.subject, held_out=True),
        "place": places(event.verb, event.subject, held_out=True),
    }
    changed = [_with(event, part, word) for word in words[part]]
    if part in ("subject", "verb"):  # the other lists hold what fits these two
        changed = [one for one in changed if fits(one, tense)]
    return draw.pick(changed) if changed else event


def _with(event: Event, part: str, word: Entry) -> Event:
    values: dict[str, Any] = {part: word}
    return replace(event, **values)


def _weather(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.weather is None:
        return meaning
    return replace(meaning, weather=draw.pick(table("weather")))


def _negated(meaning: Meaning) -> Meaning:
    if meaning.tense == "i":
        return meaning
    event = replace(meaning.event, negated=not meaning.event.negated, place=None)
    return replace(meaning, event=event)


def _reworded(meaning: Meaning, draw: Draw) -> Meaning:
    """Put the meaning in a template of the same frame, mostly of the same mode."""
    mode = meaning.template.facts["mode"] if draw.uniform() < SAME_MODE_RATE else None
    fitting = [
        template
        for template in table("templates")
        if template.held_out
        and meaning.tense in template.facts["tense"]
        and template.facts["parts"] == meaning.template.facts["parts"]
        and mode in (None, template.facts["mode"])
    ]
    return replace(meaning, template=draw.pick(fitting))
