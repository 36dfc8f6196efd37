"""Which labels a classifier confuses: the matrix, and precision, recall and F1 of each label."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """`counts[right][predicted]`: how often a text of one label was given another."""

    labels: tuple[str, ...]
    counts: Int[np.ndarray, "any any"]

    @classmethod
    def from_predictions(
        cls, labels: tuple[str, ...], predicted: Int[np.ndarray, " any"], right: Int[np.ndarray, " any"]
    ) -> "ConfusionMatrix":
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        np.add.at(counts, (right, predicted), 1)
        return cls(labels, counts)

    def by_label(self) -> dict[str, dict[str, float]]:
        """Of each label: precision, recall, F1 (0 where nothing was predicted or nothing is there), and its count."""
        found = {}
        for number, label in enumerate(self.labels):
            hits, predicted, there = (
                int(self.counts[number, number]),
                int(self.counts[:, number].sum()),
                int(self.counts[number].sum()),
            )
            precision, recall = hits / max(1, predicted), hits / max(1, there)
            f1 = 2 * hits / max(1, predicted + there)
            found[label] = {"precision": precision, "recall": recall, "f1": f1, "count": there}
        return found

    def to_dict(self) -> dict[str, object]:
        return {"labels": list(self.labels), "rows": "right", "columns": "predicted", "counts": self.counts.tolist()}
