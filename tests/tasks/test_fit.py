"""A model, a loss and data that do not belong together are refused before anything is trained."""

import pytest
import torch
from torch import nn

from fedprof.errors import SettingsError
from fedprof.tasks.load import plan
from fedprof.tasks.task import build

HERE = __name__


class Pair(nn.Linear):
    """Gives a tuple, as some library models do."""

    def forward(self, x):
        return super().forward(x.flatten(1)), x


def pair():
    return Pair(64, 10)


def maps():
    return nn.Conv2d(1, 10, 3)


def eager():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(), nn.Linear(32, 10)).train()


def own(model):
    """Settings of the digits with another model."""
    chosen = plan("digits").settings
    return chosen.model_copy(update={"model": type(chosen.model)(name=f"{HERE}:{model}", layer="")})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("loss=mse", r"training\.loss = 'mse': it is for numbers, and the targets are classes"),
        ("model.options.outputs=7", "model 'mlp' knows 7 classes, and the labels go up to 9"),
        ("model.options.inputs=63", r"model 'mlp' cannot take inputs of shape \(1, 8, 8\)"),
    ],
)
def test_a_setting_that_does_not_fit_the_data(override, message):
    with pytest.raises(SettingsError, match=message):
        build(plan("digits", overrides=[override]).settings, seed=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [("pair", "gives tuple where a tensor"), ("maps", r"gives \(10, 6, 6\) for a sample, where one number a class")],
)
def test_a_model_whose_output_is_no_score_a_class(model, message):
    with pytest.raises(SettingsError, match=message):
        build(own(model), seed=0)


def test_numbers_to_predict_need_a_loss_for_numbers_and_as_many_outputs(tmp_path):
    path = tmp_path / "regression.toml"
    text = 'task = "digits"\ndamage = {}\n[data]\nsource = "SOURCE"\nclients = 2\nvalidation = 9\n'
    path.write_text(text.replace("SOURCE", f"{HERE}:slopes"))
    with pytest.raises(SettingsError, match="'ce': it is for classes, and the targets are numbers; use 'mse'"):
        build(plan(path).settings, seed=0)
    with pytest.raises(SettingsError, match=r"gives \(10,\) for a sample, where the targets are \(2,\)"):
        build(plan(path, overrides=["loss=mse"]).settings, seed=0)
    build(plan(path, overrides=["loss=mse", "model.options.outputs=2"]).settings, seed=0)


def slopes():
    """Data to predict two numbers from."""
    import numpy as np

    from fedprof.data.sources import Raw

    x = np.random.default_rng(0).random((60, 64), np.float32)
    return Raw(x, x[:, :2], x[:0], x[:0, :2], classes=0)


def test_looking_changes_neither_model_nor_randomness():
    before = torch.get_rng_state()
    model = build(own("eager"), seed=0).workload.model
    assert torch.equal(torch.get_rng_state(), before)
    assert all(part.training for part in model.modules())
    assert model[2].num_batches_tracked == 0
