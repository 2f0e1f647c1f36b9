"""The model, the data (scikit-learn's digits: nothing to download), training and testing."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VALIDATION = 400
BAD = {1: "irrelevant", 3: "noise"}
"""What the images of some nodes suffer from, by partition modulo 5; the others hold clean data."""


class Net(nn.Module):
    """A small multi-layer perceptron."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x):
        """Class scores of flattened 8 x 8 images."""
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def digits():
    """All images and labels, shuffled once and for all."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order]


def load_data(context):
    """One node's training and test data."""
    partition, partitions = context.node_config["partition-id"], context.node_config["num-partitions"]
    images, labels = (values[VALIDATION:][partition::partitions] for values in digits())
    images = damaged(images, BAD.get(partition % 5), np.random.default_rng(partition))
    held_out, batch = len(labels) // 5, context.run_config["batch-size"]
    return (
        _loader(images[held_out:], labels[held_out:], batch, shuffle=True),
        _loader(images[:held_out], labels[:held_out], batch),
    )


def damaged(images, kind, rng):
    """Images as a node with bad data has them."""
    if kind == "irrelevant":
        return rng.random(images.shape)
    if kind == "noise":
        return np.where(rng.random(images.shape) < 0.4, rng.random(images.shape) < 0.5, images)
    return images


def load_validation_data():
    """The server's own data, all of it good."""
    images, labels = digits()
    return _loader(images[:VALIDATION], labels[:VALIDATION], 128)


def train(net, loader, epochs, rate):
    """Train in place; return the mean loss."""
    optimiser = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for _ in range(epochs):
        for images, labels in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def test(net, loader):
    """Mean loss and accuracy."""
    with torch.no_grad():
        results = [(net(images), labels) for images, labels in loader]
    scores, labels = (torch.cat(parts) for parts in zip(*results, strict=True))
    return nn.functional.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item()


def _loader(images, labels, batch_size, *, shuffle=False):
    data = TensorDataset(torch.tensor(images, dtype=torch.float32), torch.tensor(labels))
    order = torch.Generator().manual_seed(0)  # the same in every run, so that runs can be compared
    return DataLoader(data, batch_size=batch_size, shuffle=shuffle, generator=order)
