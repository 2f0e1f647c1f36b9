"""Fusing a layer's output to one row of representation elements a sample (section III-A, Propositions 1 and 2).

=============================  ======================================================================================
dense layer                    the pre-activation output, one element a unit (summed over positions, if it has any)
convolution or residual block  the sum over the feature map, one element a channel
LSTM, GRU or RNN               the final hidden state of the last layer summed over units (and directions): one element
=============================  ======================================================================================
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from fedprof.errors import LayerError

_CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)


def fused(output: object, module: nn.Module) -> torch.Tensor:
    """Turn what ``module`` returned into a float64 ``(samples, q)`` tensor, q depending on the kind of layer.

    Outputs of more than two dimensions are summed over all but the batch (first) and the channels: those come second,
    as in convolutions, unless the module holds dense layers, layer norms or embeddings and no convolution; then last.
    """
    if isinstance(module, nn.RNNBase):
        return _final_state(output, module)
    if not isinstance(output, torch.Tensor):
        raise LayerError(
            f"it returns a {type(output).__name__}, not a tensor; pass fuse= to turn that into (samples, q)"
        )
    if output.dim() < 2 or (isinstance(module, _ConvNd) and output.dim() < 2 + len(module.kernel_size)):
        raise LayerError(f"its output has shape {tuple(output.shape)}; pass fuse= to turn that into (samples, q)")
    if output.dim() == 2:
        return _float64(output)
    channel = output.dim() - 1 if _channels_come_last(module) else 1
    positions = [d for d in range(1, output.dim()) if d != channel]
    return _float64(output, positions)


def _float64(values: torch.Tensor, summed: list[int] | None = None) -> torch.Tensor:
    if values.device.type == "mps":
        values = values.cpu()  # Apple's GPUs have no float64
    return values.sum(summed, dtype=torch.float64) if summed else values.to(torch.float64)


def _channels_come_last(module: nn.Module) -> bool:
    parts = list(module.modules())
    return any(isinstance(p, _CHANNELS_LAST) for p in parts) and not any(isinstance(p, _ConvNd) for p in parts)


def _final_state(output: object, module: nn.RNNBase) -> torch.Tensor:
    if not (isinstance(output, tuple) and len(output) == 2):
        raise LayerError("a recurrent layer returns (output, state), this one does not; pass fuse=")
    state = output[1]
    hidden = state[0] if isinstance(state, tuple) else state  # LSTM: (h, c)
    if hidden.dim() == 2:  # one sequence, without a batch dimension
        hidden = hidden.unsqueeze(1)
    last_layer = hidden[-2:] if module.bidirectional else hidden[-1:]
    return _float64(last_layer, [0, 2]).unsqueeze(1)
