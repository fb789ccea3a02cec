"""Whether an artefact gives the vectors of the encoder it was made from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.evaluate.vectors import SentenceEncoder

# Scripts, accents, marks, digits, emoji, control tokens as text, nothing, and a
# sentence that is too long for any encoder.
SENTENCES = (
    "The ferry leaves at seven, whatever the weather.",
    "Two children are building a tower out of wooden blocks.",
    "Die Fähre legt um sieben ab, bei jedem Wetter; Größe: 3,5 Meter.",
    "Le garçon a déjà mangé, mais sa sœur préfère attendre.",
    "¿Dónde está la estación? ¡A cinco minutos, señora!",
    "Perché non andiamo al mare, finché c'è il sole?",
    "De trein naar Zwolle vertrekt over tien minuten.",
    "İstanbul'da yağmur yağıyor, şemsiyeni unutma.",
    "Zażółć gęślą jaźń.",
    "Поезд отправляется в полдень.",
    "القطار يصل عند الظهر.",
    "火车中午到达。",
    "電車は正午に着きます。",
    "기차는 정오에 도착합니다.",
    "रेलगाड़ी दोपहर को पहुँचती है।",
    "Call 0800 123-456 or write to info@example.org (24/7)!",
    "Good luck 🍀 and see you soon 👋🏽",
    "A [SEP] and a </s> are only words here.",
    "ok",
    "",
    "all the way down the long and winding road " * 40,
)


class ExportError(InputError):
    """An artefact that is not what its encoder is, or larger than it should be."""


def check_parity(
    encoder: SentenceEncoder,
    run: Callable[[list[str]], np.ndarray],
    min_cosine: float,
    sentences: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compare an artefact with its encoder, sentence by sentence.

    Args:
        encoder: What the artefact was made from.
        run: The artefact in its runtime: sentences to `(n, dim)`.
        min_cosine: Smallest cosine between both vectors of a sentence.
        sentences: What is compared; by default some in many scripts and lengths.

    Returns:
        `{"sentences", "min_cosine", "mean_cosine", "largest_difference"}`; the last is
        the largest absolute difference of two components.

    Raises:
        ExportError: The shapes differ, or a cosine is below `min_cosine` or not finite.
    """
    texts = list(SENTENCES if sentences is None else sentences)
    if not texts:
        raise InputError("`sentences` must hold at least one text. Received: none.")
    ours = np.asarray(encoder.encode(texts), np.float64)
    theirs = np.asarray(run(texts), np.float64)
    if ours.shape != theirs.shape:
        raise ExportError(
            f"The artefact must give vectors of shape {ours.shape}. Received: "
            f"{theirs.shape}. Nothing was kept."
        )
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosine = (ours * theirs).sum(axis=1) / np.where(norms > 0, norms, 1)
    cosine[(ours == theirs).all(axis=1)] = 1  # also where both are all zeros
    worst = int(np.argmin(np.where(np.isfinite(cosine), cosine, -np.inf)))
    if not cosine[worst] >= min_cosine:
        raise ExportError(
            f"The artefact must agree with the encoder to cosine {min_cosine}. "
            f"Received: {cosine[worst]:.6f} for {texts[worst]!r:.60}. Nothing was "
            "kept; another format or less quantization may agree better."
        )
    return {
        "sentences": len(texts),
        "min_cosine": round(float(cosine.min()), 8),
        "mean_cosine": round(float(cosine.mean()), 8),
        "largest_difference": round(float(np.abs(ours - theirs).max()), 8),
    }
