"""LSTM classifier: the final hidden state of the last layer, then one dense layer.

S. Hochreiter and J. Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn


class LSTMClassifier(nn.Module):
    """Reads sequences ``(batch, steps, features)``; reads images ``(batch, channels, rows, columns)`` row by row."""

    def __init__(self, features: int, classes: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give one unnormalised score a class."""
        _, (final, _) = self.lstm(x.flatten(1, -2))
        return cast("torch.Tensor", self.fc(final[-1]))


def lstm(features: int = 28, classes: int = 10, hidden: int = 64, layers: int = 1) -> LSTMClassifier:
    """Build an LSTM classifier."""
    return LSTMClassifier(features, classes, hidden, layers)
