"""Models by name: ours and anybody's; wrong names get help."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from torch import nn

from fedprof.errors import SettingsError
from fedprof.models.registry import MODELS, create, spec
from fedprof.models.weights import flatten


def factory(width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(2, width), nn.PReLU())


def not_a_model() -> int:
    return 3


def test_listing_the_models_imports_no_pytorch():
    code = "import sys; from fedprof.models.registry import MODELS; assert MODELS; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("wrong", "right"), [("lenet6", "lenet5"), ("resnet-18", "resnet18"), ("MLP", "mlp")])
def test_a_misspelt_name_gets_the_nearest_one(wrong, right):
    with pytest.raises(SettingsError, match=f"no model '{wrong}'. Did you mean '{right}'"):
        spec(wrong)


def test_mistakes_in_a_model_of_ones_own_are_told_without_a_traceback(tmp_path, monkeypatch):
    (tmp_path / "half_a_model.py").write_text("def model(:\n")
    (tmp_path / "sulky_model.py").write_text("def model():\n    raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=r"half_a_model:model': SyntaxError: .*half_a_model\.py, line 1"):
        create("half_a_model:model", 0)
    with pytest.raises(SettingsError, match=r"sulky_model:model' cannot be built with \{\}: RuntimeError: not today"):
        create("sulky_model:model", 0)


@pytest.mark.parametrize("path", ["nowhere:net", ":net", ".here:net"])
def test_a_path_that_leads_nowhere_is_named(path):
    with pytest.raises(SettingsError, match=f"cannot import the model '{path}'"):
        create(path, 0)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(SettingsError, match=", ".join(MODELS)):
        spec("zzzzzz")


def test_a_users_model_is_named_by_import_path_and_seeded():
    one, same, other = (flatten(create(f"{__name__}:factory", seed, width=5)) for seed in (1, 1, 2))
    assert len(one) == 2 * 5 + 5 + 1
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("no_such_package:model", "cannot import the model 'no_such_package:model'.*no_such_package"),
        ("fedprof.models.mlp:lenet", "cannot import the model 'fedprof.models.mlp:lenet'.*lenet"),
        (f"{__name__}:not_a_model", "gave int, not a torch.nn.Module"),
    ],
)
def test_a_path_that_leads_to_no_model_is_refused(path, problem):
    with pytest.raises(SettingsError, match=problem):
        create(path, 0)


def test_options_a_model_does_not_have_are_refused():
    with pytest.raises(SettingsError, match=r"There is no option 'model.options.depth'.*model.options.classes"):
        create("lenet5", 0, depth=3)
