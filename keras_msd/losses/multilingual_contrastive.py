"""Similarities across languages imitate the guide's similarities in English."""

from typing import Any

import keras
from keras import ops

from keras_msd import checks
from keras_msd.losses.cosine import cosine_matrix
from keras_msd.losses.pairs import pair_of, same_line, without_duplicates

TARGETS = ("soft", "bool", "ce_soft", "ce_hard", "softmax")


@keras.saving.register_keras_serializable(package="keras_msd")
class MultilingualContrastive(keras.losses.Loss):
    """Multilingual contrastive learning over the n x n similarities of a batch.

    `S[i, j]` is the cosine of source i and target j, `T[i, j]` that of guide vectors i
    and j. The default reduction averages what stands here per row i:

    | `target` | row i | equation |
    |---|---|---|
    | "soft" | `mean_j (T[i, j] - S[i, j])^2` | 5 |
    | "bool" | `mean_j (same[i, j] - S[i, j])^2` | 8 |
    | "ce_soft" | `-sum_j T[i, j] log softmax_j(S[i, :] / temperature)[j]` | 9 |
    | "ce_hard" | `-log softmax_j(S[i, :] / temperature)[i]` | the authors' code |
    | "softmax" | `-sum_j Q[i, j] (L[i, j] + L'[i, j]) / 2` | ours |

    `Q[i, :]` is `softmax(T[i, :] / temperature)`, `L` the log-softmax of
    `S / temperature` over j and `L'` that of its transpose: near neighbours count for
    most, where "soft" and "ce_soft" spend their effort on the many unrelated sentences.

    `same[i, j]` is 1 where i and j have the same English line. Such rows are never
    negatives: "soft", "ce_soft" and "softmax" find them equal in T, "bool" by `group`,
    "ce_hard" leaves them out of the softmax of i. Equation 9 as printed is the sum over
    i, not the mean: `reduction="sum"`. A zero vector has cosine 0 with everything.
    Computed in float32 whatever the dtype policy.

    Shapes: `y_true` guide vectors `(n, d)`, or a pair of them and `group` `(n,)`, equal
    numbers where the English line is the same (without it every row is its own);
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`.

    Args:
        target: What the similarities imitate, as in the table.
        temperature: Divides the cosines of the cross-entropies, above 0.
        reduction: Over the rows, as for every Keras loss.
        name: Name of the loss.

    Source: Ding et al. 2022, eq. 5, 8 and 9.
    """

    def __init__(
        self,
        target: str = "soft",
        temperature: float = 0.05,
        reduction: str | None = "sum_over_batch_size",
        name: str = "multilingual_contrastive",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        checks.one_of(TARGETS, target=target)
        if not temperature > 0:
            raise checks.InputError(
                f"`temperature` must be above 0. Received: temperature={temperature}."
            )
        self.target, self.temperature = target, temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        source, target = pair_of(y_pred, "y_pred", "source and target embeddings")
        guide, group = y_true if isinstance(y_true, tuple | list) else (y_true, None)
        return self.pairwise(guide, source, target, group)

    def pairwise(self, guide: Any, source: Any, target: Any, group: Any = None) -> Any:
        """Return the row values from float32 tensors; arguments as in the class."""
        similarity = cosine_matrix(source, target)
        if self.target == "soft":
            wanted = cosine_matrix(guide, guide)
            return ops.mean(ops.square(wanted - similarity), axis=-1)
        if self.target == "bool":
            wanted = ops.cast(same_line(guide, group), similarity.dtype)
            return ops.mean(ops.square(wanted - similarity), axis=-1)
        logits = similarity / self.temperature
        if self.target == "ce_soft":
            wanted = cosine_matrix(guide, guide)
            return -ops.sum(wanted * ops.log_softmax(logits, axis=-1), axis=-1)
        if self.target == "softmax":
            share = ops.softmax(cosine_matrix(guide, guide) / self.temperature, axis=-1)
            logs = ops.log_softmax(logits, axis=-1)
            logs = (logs + ops.log_softmax(ops.transpose(logits), axis=-1)) / 2
            return -ops.sum(share * logs, axis=-1)
        # Differences from the row's own logit first: the others cancel in float32.
        behind = logits - ops.expand_dims(ops.diagonal(logits), 1)
        return ops.logsumexp(without_duplicates(behind, group), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        own = {"target": self.target, "temperature": self.temperature}
        return super().get_config() | own
