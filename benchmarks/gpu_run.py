"""Times training steps under JAX, and how much of the device they use.

Called by gpu.sh in the folder of a pack; here, with no pack:

    KERAS_BACKEND=jax python benchmarks/gpu_run.py --pairs 64 --updates 5

Stage 1 at several batch sizes, the others at the middle one. A batch is random and has
no padding. Utilisation is the formula's operations (products of matrices, three times
those of the forward pass) against the best measured product. Where torch and
transformers are installed, the same step of stage 1 runs there, as
sentence-transformers would do it: BertModel, mean pooling, squared error, AdamW, by
torch.compile.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

PEAK_SIDES = (2048, 4096, 8192)
STEPS_AT_ONCE = 32
LONGEST_S = 2.0  # of a product of matrices that is still tried
FIRST = "teach_assistant"
TRAINING = 3  # a step's operations, in those of its forward pass
SHAPE = {"hidden_dim": 384, "num_heads": 12, "intermediate_dim": 1536, "pad_id": 0}
# A small student, and MiniLM with 64,000 tokens in two depths.
ENCODERS: dict[str, dict[str, int]] = {
    "lab student": {
        "vocabulary_size": 20_000, "bottleneck_dim": 128, "num_layers": 3,
        "repeats": 2, "projection_dim": 384,
    },
    "6 x 384": {"vocabulary_size": 64_000, "num_layers": 6},
    "12 x 384": {"vocabulary_size": 64_000, "num_layers": 12},
}  # fmt: skip


def step_operations(config: Any, lengths: np.ndarray, whole: bool = True) -> float:
    """Return the operations of a step: three times those of the forward pass.

    Products of matrices alone are counted, those of padding are not.

    Args:
        config: An `EncoderConfig`.
        lengths: Tokens of each sentence of the batch, `(n,)`.
        whole: Whether the network is run, or its embedding block alone.
    """
    lengths = np.asarray(lengths, float)
    tokens, width, narrow = lengths.sum(), config.hidden_dim, config.bottleneck_dim
    count = 2 * narrow * width * tokens if narrow else 0.0
    if whole:
        layer = 2 * (4 * width**2 + 2 * width * config.intermediate_dim) * tokens
        scores = 4 * width * (lengths**2).sum()  # of a token with all others, and back
        count += config.depth * (layer + scores)
        head = width if config.projection_dim else 0
        count += 2 * head * config.dim * len(lengths)
    return TRAINING * count


def least_seconds(call: Callable[[], Any], times: int) -> float:
    """Return the seconds of the fastest of some calls, after one that compiles."""
    call()
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return min(spent)


def measured_peak(precision: str) -> float:
    """Return the TFLOP/s of the best product of two matrices."""
    import jax
    import jax.numpy as jnp

    multiply, peak = jax.jit(jnp.matmul), 0.0
    for side in PEAK_SIDES:
        if peak and 2 * side**3 / peak / 1e12 > LONGEST_S:
            break
        drawn = np.random.default_rng(0).random((2, side, side), np.float32)
        one, other = jnp.asarray(drawn, precision)
        seconds = least_seconds(
            lambda one=one, other=other: multiply(one, other).block_until_ready(), 5
        )
        peak = max(peak, 2 * side**3 / seconds / 1e12)
    return peak


def random_batch(
    stage: Any, config: Any, pairs: int, tokens: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a random batch of a stage, of sentences that all have as many tokens."""
    random = np.random.default_rng(0)
    x: dict[str, np.ndarray] = {"group": np.arange(pairs, dtype=np.int32)}
    for side in ("source", "target"):
        ids = random.integers(1, config.vocabulary_size, (pairs, tokens))
        x[f"{side}_token_ids"] = ids.astype(np.int32)
        x[f"{side}_padding_mask"] = np.ones((pairs, tokens), np.int32)
    y: dict[str, np.ndarray] = {}
    for name in stage.targets:
        dim = config.hidden_dim if name.startswith("embedding") else config.dim
        y[name] = random.normal(size=(pairs, dim)).astype(np.float32)
        if name in ("gold", "label"):
            y[name] = np.arange(pairs).astype("int32" if name == "label" else "float32")
            y[name] %= 2
    return x, y


def stages(dim: int) -> dict[str, Any]:
    """Return what makes each stage of an encoder of that width."""
    from keras_msd import stages as made

    return {
        "teach_assistant": made.TeachAssistant,
        "align_embedding": made.AlignEmbedding,
        "teach_student": made.TeachStudent,
        "contrastive_learning": made.ContrastiveLearning,
        "teach_thin_deep": lambda model: made.TeachThinDeep(model, teacher_dim=dim),
        "classify_inference": made.ClassifyInference,
        "regress_similarity": made.RegressSimilarity,
    }


def repeated(x: Any, y: Any, updates: int) -> Any:
    """Return a pass of one batch, again and again."""
    from keras_msd.data.batches import Batches

    class Repeated(Batches):
        position, steps = 0, updates

        def batch(self, position: int) -> Any:
            return x, y

    return Repeated()


def timed(stage: Any, x: Any, y: Any, updates: int) -> tuple[float, float]:
    """Return the seconds that compiling took, and those of a step."""
    batches = repeated(x, y, updates)

    def spent() -> float:
        began = time.perf_counter()
        stage.fit(batches, verbose=0)
        return time.perf_counter() - began

    first, later = spent(), spent()
    return first - later, later / updates


def measured(
    fields: dict[str, int], pairs: int, names: list[str], given: Any, peak: float
) -> dict[str, Any]:
    """Return a row for each of some stages of one encoder."""
    from keras_msd.models import EncoderConfig, build_model
    from keras_msd.training import make_optimizer
    from keras_msd.training.profile import computing_in

    config = EncoderConfig(**SHAPE | fields, max_length=given.tokens, dropout=0.0)
    lengths = np.full(2 * pairs, given.tokens)
    rows = {}
    for name in names:
        make, updates = stages(config.dim)[name], steps_of(given.updates, pairs)
        with computing_in(given.precision):
            stage = make(build_model(config))
        at_once = min(updates, STEPS_AT_ONCE)
        stage.compile(make_optimizer(1e-4, steps=10_000), steps_per_execution=at_once)
        x, y = random_batch(stage, config, pairs, given.tokens)
        compiling, each = timed(stage, x, y, updates)
        count = step_operations(config, lengths, name != "align_embedding")
        rows[name] = {
            "compile_seconds": round(compiling, 1),
            "milliseconds": round(1000 * each, 2),
            "tokens_per_second": round(lengths.sum() / each),
            "utilisation": round(count / each / peak / 1e12, 3),
        }
    return rows


def steps_of(updates: int, pairs: int) -> int:
    """Return `updates`, or for more than 256 pairs fewer, but eight if it can be."""
    return min(updates, max(8, updates * 256 // pairs))


def in_torch(fields: dict[str, int], pairs: int, given: Any) -> dict[str, float]:
    """Return the time of the same step of stage 1 in torch, on a GPU if it has one."""
    import torch
    from transformers import BertConfig, BertModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = BertModel(
        BertConfig(
            vocab_size=fields["vocabulary_size"],
            hidden_size=SHAPE["hidden_dim"],
            num_attention_heads=SHAPE["num_heads"],
            intermediate_size=SHAPE["intermediate_dim"],
            num_hidden_layers=fields["num_layers"] * fields.get("repeats", 1),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        add_pooling_layer=False,
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    shape = 2 * pairs, given.tokens
    ids = torch.randint(1, fields["vocabulary_size"], shape, device=device)
    goals = torch.randn(shape[0], SHAPE["hidden_dim"], device=device)

    @torch.compile
    def loss() -> Any:
        with torch.autocast(device, torch.bfloat16, given.precision == "bfloat16"):
            vectors = model(ids).last_hidden_state.float().mean(1)
        return torch.nn.functional.mse_loss(vectors, goals)

    def step() -> None:
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def spent(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    updates, compiling = steps_of(given.updates, pairs), spent(2)
    each = spent(updates) / updates
    return {
        "compile_seconds": round(compiling - 2 * each, 1),
        "milliseconds": round(1000 * each, 2),
        "tokens_per_second": round(shape[0] * given.tokens / each),
    }


def main() -> None:
    """Measure, print a table, write and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sizes = [256, 1024, 4096]
    parser.add_argument("--pairs", type=int, nargs="+", default=sizes)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--updates", type=int, default=96)
    known = list(ENCODERS)
    parser.add_argument("--encoders", nargs="+", default=known[1:], choices=known)
    others = ["teach_student", "contrastive_learning"]
    parser.add_argument("--stages", nargs="*", default=others, metavar="NAME")
    parser.add_argument("--precision", default="bfloat16", help="or float32")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    given = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "jax"
    import jax

    if unknown := set(given.stages) - stages(1).keys():
        names = ", ".join(stages(1))
        parser.error(f"--stages must be of {names}. Received: {min(unknown)}.")
    peak = measured_peak(given.precision)
    torch = find_spec("torch") is not None and find_spec("transformers") is not None
    result: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "peak_tflops": round(peak, 4),
        **{key: getattr(given, key) for key in ("tokens", "precision")},
        "encoders": {},
    }
    head = "compile s", "ms", "tokens/s", "MFU"
    print(f"{'':48}" + "".join(f"{name:>13}" for name in head))
    columns = "compile_seconds", "milliseconds", "tokens_per_second", "utilisation"
    middle = sorted(given.pairs)[len(given.pairs) // 2]
    for encoder, pairs in product(given.encoders, given.pairs):
        fields = ENCODERS[encoder]
        names = [FIRST, *(given.stages if pairs == middle else [])]
        rows = measured(fields, pairs, names, given, peak)
        if torch:
            rows[f"{FIRST}, torch"] = in_torch(fields, pairs, given)
        result["encoders"].setdefault(encoder, {})[pairs] = rows
        for name, row in rows.items():
            cells = [str(row.get(key, "")) for key in columns]
            label = f"{encoder}, {pairs}, {name}"
            print(f"{label:48}" + "".join(f"{it:>13}" for it in cells), flush=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
