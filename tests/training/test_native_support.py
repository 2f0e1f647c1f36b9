"""Which workloads the native engine takes, and what it says of the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from native_cases import workload
from torch import nn

from fedprof.errors import SettingsError
from fedprof.models.lenet import lenet5
from fedprof.training.native.engine import NativeEngine, supports

TESTS = Path(__file__).parent


def image_model(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(10))


def images(*layers):
    model = image_model(*layers)
    with torch.no_grad():
        model(torch.zeros(1, 2, 8, 8))
    return workload(model, (2, 8, 8), loss="ce", layer=str(len(model) - 1))


def test_the_papers_lenet_is_supported():
    assert supports(workload(lenet5(), (1, 28, 28))) is None


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)], "1 is a BatchNorm2d, which has no native kernel"),
        ([nn.Dropout(0.5)], "0 is a Dropout"),
        ([nn.Conv2d(2, 4, 3, groups=2)], "0 has groups, dilation or a padding"),
        ([nn.Conv2d(2, 4, 3, dilation=2)], "0 has groups, dilation or a padding"),
        ([nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")], "0 has groups, dilation or a padding"),
        ([nn.Conv2d(2, 4, 2, padding="same")], "0 pads 'same' around an even kernel"),
        ([nn.MaxPool2d(3, padding=1)], "0 pools with padding"),
        ([nn.MaxPool2d(3, ceil_mode=True)], "0 pools with padding, dilation, ceil_mode"),
        ([nn.AvgPool2d(2, divisor_override=3)], "a divisor of its own"),
        ([nn.Sequential(nn.Conv2d(2, 4, 3), nn.GELU())], "0.1 is a GELU"),
        ([nn.Linear(8, 8)], "0 is applied to images; put a Flatten before it"),
        ([nn.Flatten(2)], "0 flattens some dimensions only"),
    ],
)
def test_a_layer_without_a_kernel_is_named(layers, reason):
    assert reason in supports(images(*layers))


def test_other_obstacles_are_named_too():
    model = nn.Sequential(nn.Linear(4, 3))
    assert "the loss is" in supports(workload(model, (4,), outputs=3, loss="ce", layer="0").__class__(
        **{**vars(workload(model, (4,), outputs=3, loss="ce")), "loss": nn.functional.cross_entropy}
    ))  # fmt: skip
    assert "is not a Linear or Conv2d" in supports(workload(model, (4,), outputs=3, layer="1"))
    assert "expects 4 features but gets 5" in supports(workload(model, (5,), outputs=3))
    assert "expects images of 3 channels" in supports(
        workload(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 10)), (1, 6, 6), layer="0")
    )
    assert "larger than its input" in supports(workload(nn.Sequential(nn.Conv2d(1, 4, 9), nn.Flatten()), (1, 6, 6)))
    assert "a sample has shape (3, 4)" in supports(workload(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), (3, 4)))
    assert "not flat" in supports(workload(nn.Sequential(nn.Conv2d(1, 4, 3)), (1, 6, 6)))
    assert "must be last" in supports(
        workload(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1), nn.Linear(3, 3)), (4,), outputs=3)
    )
    assert "mse of log-probabilities" in supports(
        workload(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)), (4,), outputs=3, loss="mse")
    )


def test_a_module_of_the_users_own_is_refused_even_if_it_inherits():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    class Residual(nn.Sequential):
        def forward(self, x):
            return x + super().forward(x)

    assert "Doubled, which has no native kernel" in supports(
        workload(nn.Sequential(Doubled(4, 3)), (4,), outputs=3, layer="0")
    )
    inner = Residual(nn.Linear(4, 4))
    assert "Residual, which has no native kernel" in supports(
        workload(nn.Sequential(inner, nn.Linear(4, 3)), (4,), outputs=3, layer="1")
    )


def test_shared_frozen_and_hooked_layers_are_refused():
    shared = nn.Linear(4, 4)
    assert "is used twice" in supports(workload(nn.Sequential(shared, nn.ReLU(), shared), (4,), outputs=4))
    frozen = nn.Sequential(nn.Linear(4, 3))
    frozen[0].bias.requires_grad_(False)
    assert "frozen" in supports(workload(frozen, (4,), outputs=3))
    hooked = nn.Sequential(nn.Linear(4, 3))
    hooked[0].register_forward_hook(lambda *_: None)
    assert "hooks" in supports(workload(hooked, (4,), outputs=3))


def test_an_unsupported_model_is_a_settings_error():
    with pytest.raises(SettingsError, match="Dropout, which has no native kernel; use the torch engine"):
        NativeEngine(images(nn.Dropout()), 1)


def test_kernels_are_not_compiled_on_import():
    code = "import sys, fedprof.training.native.engine; assert 'fedprof.training.native.kernels' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_wrong_vector_width_is_refused(monkeypatch):
    from fedprof.training.native import machine

    machine.widest.cache_clear()
    monkeypatch.setenv("FEDPROF_NATIVE_LANES", "12")
    with pytest.raises(SettingsError, match="FEDPROF_NATIVE_LANES is '12'; it must be 4, 8 or 16"):
        machine.widest()
    machine.widest.cache_clear()


def test_compiling_is_announced_once():
    """In a process of its own, where nothing has been compiled or fetched yet."""
    code = """
from torch import nn
from fedprof.training.native.engine import NativeEngine
from native_cases import flat, workload
said = []
work = workload(nn.Sequential(nn.Linear(4, 3)), (4,), outputs=3, loss="ce")
for workers in (1, 2):
    engine = NativeEngine(work, workers, on_compile=said.append)
    assert len(said) == workers - 1
    engine.evaluate(flat(work.model))
    engine.evaluate(flat(work.model))
    assert len(said) == 1 and "compiled once" in said[0]
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
