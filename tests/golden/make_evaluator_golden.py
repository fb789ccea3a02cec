"""Makes `evaluators/`: vectors, and what sentence-transformers' evaluators say of them.

Gold scores and cosines have ties, sentences occur twice on either side, one vector is
zero, and no vector has length one.

    pip install torch sentence-transformers
    python tests/golden/make_evaluator_golden.py
"""

import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from safetensors.numpy import save_file
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    MSEEvaluator,
    TranslationEvaluator,
)

HERE = Path(__file__).parent / "evaluators"
DIM = 6
PAIRS = 60
ROWS = 90


class Table:
    """A model that looks its vectors up, with as much as the evaluators ask for."""

    similarity_fn_name = "cosine"
    model_card_data = SimpleNamespace(set_evaluation_metrics=lambda *_: None)

    def __init__(self, vectors):
        self.vectors = vectors

    def encode(self, sentences, convert_to_numpy=True, **_):
        """Return an array, or the list of tensors that translation is scored on."""
        import torch

        found = np.stack([self.vectors[sentence] for sentence in sentences])
        return found if convert_to_numpy else list(torch.from_numpy(found))

    def eval(self):
        """Do nothing: there is no dropout."""


def main():
    """Rewrite the folder."""
    random = np.random.default_rng(17)
    sources = [f"source {i % (PAIRS - 3)}" for i in range(PAIRS)]
    targets = [f"target {i % (PAIRS - 5)}" for i in range(PAIRS)]
    student, teacher = {}, {}
    for source, target in zip(sources, targets, strict=True):
        base = random.normal(size=DIM)
        teacher.setdefault(source, base.astype(np.float32))
        near = base + 0.3 * random.normal(size=DIM)
        student.setdefault(source, near.astype(np.float32))
        far = 2 * base + 0.9 * random.normal(size=DIM)
        student.setdefault(target, far.astype(np.float32))
    student["target 8"] = np.zeros(DIM, np.float32)
    rows = []
    for i in range(ROWS):
        one, two = sources[random.integers(PAIRS)], targets[random.integers(PAIRS)]
        a, b = student[one], student[two]
        cosine = a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-9)
        gold = np.clip(2.5 + 2 * cosine + random.normal(), 0, 5)
        again = i >= 9 and i % 9 == 0
        rows.append(rows[i - 9] if again else (round(2 * float(gold)) / 2, one, two))
    golds, ones, twos = map(list, zip(*rows, strict=True))
    model, guide = Table(student), Table(teacher)
    expected = {
        "sts": EmbeddingSimilarityEvaluator(ones, twos, golds)(model),
        "translation": TranslationEvaluator(sources, targets)(model),
        "mse": MSEEvaluator(sources, targets, teacher_model=guide)(model),
    }
    HERE.mkdir(exist_ok=True)
    texts, guided = list(student), list(dict.fromkeys(sources))
    save_file(
        {
            "student": np.stack([student[text] for text in texts]),
            "teacher": np.stack([teacher[text] for text in guided]),
        },
        HERE / "vectors.safetensors",
    )
    packages = ("sentence-transformers", "torch", "numpy", "safetensors")
    value = {
        "texts": texts,
        "guided": guided,
        "pairs": list(zip(sources, targets, strict=True)),
        "rows": rows,
        "expected": {
            name: {key: float(score) for key, score in one.items()}
            for name, one in expected.items()
        },
        "versions": {name: version(name) for name in packages},
    }
    text = json.dumps(value, separators=(",", ":")) + "\n"
    (HERE / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
