"""The models are the published ones: parameter counts, output shapes, names of parts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedprof.errors import SettingsError
from fedprof.models import registry
from fedprof.models.registry import MODELS, create
from fedprof.models.shufflenet import Depthwise, Pointwise, interleave, shufflenet
from fedprof.models.weights import trainable_size

PUBLISHED = [
    ("lenet5", {}, 61_706),
    ("lenet-caffe", {}, 431_080),
    ("cnn", {}, 1_663_370),
    ("cnn-small", {}, 21_840),
    ("shufflenet-x0.5", {"classes": 1000}, 1_366_792),
    ("shufflenet-x1.0", {"classes": 1000}, 2_278_604),
    ("resnet18", {"classes": 1000}, 11_689_512),
]


@pytest.mark.parametrize(("name", "options", "count"), PUBLISHED)
def test_the_number_of_parameters_is_the_published_one(name, options, count):
    assert trainable_size(create(name, 0, **options)) == count


@pytest.mark.parametrize("name", ["shufflenet-x0.5", "shufflenet-x1.0"])
def test_the_small_image_stem_of_shufflenet_has_the_same_parameters(name):
    assert trainable_size(create(f"{name}-cifar", 0)) == trainable_size(create(name, 0))


def test_an_mlp_has_a_weight_an_edge_and_a_bias_a_neuron():
    assert trainable_size(create("mlp", 0, inputs=11, hidden=(64, 32), outputs=2)) == 11 * 64 + 64 + 64 * 32 + 32 + 66


INPUTS = {
    "mlp": (11,),
    "lenet5": (1, 28, 28),
    "lenet-caffe": (1, 28, 28),
    "cnn": (1, 28, 28),
    "cnn-small": (1, 28, 28),
    "shufflenet-x0.5": (3, 64, 64),
    "shufflenet-x1.0": (3, 64, 64),
    "shufflenet-x0.5-cifar": (3, 32, 32),
    "shufflenet-x1.0-cifar": (3, 32, 32),
    "resnet18": (3, 64, 64),
    "resnet18-cifar": (3, 32, 32),
    "lstm": (28, 28),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_one_output_a_class_and_has_the_layer_it_says(name):
    model = create(name, 0).eval()
    outputs = 2 if name == "mlp" else 10
    with torch.no_grad():
        assert model(torch.zeros(3, *INPUTS[name])).shape == (3, outputs)
    assert MODELS[name].layer in dict(model.named_modules())


@pytest.mark.parametrize("name", ["lenet5", "lenet-caffe", "cnn", "cnn-small"])
@pytest.mark.parametrize(("side", "channels"), [(28, 1), (32, 3), (25, 2)])
def test_image_models_fit_other_image_sizes(name, side, channels):
    model = create(name, 0, side=side, channels=channels, classes=7)
    assert model(torch.zeros(2, channels, side, side)).shape == (2, 7)


@pytest.mark.parametrize("name", ["lenet5", "lenet-caffe", "cnn", "cnn-small"])
def test_models_for_the_nll_loss_give_log_probabilities(name):
    outputs = create(name, 0)(torch.randn(4, 1, 28, 28))
    assert torch.allclose(outputs.exp().sum(dim=1), torch.ones(4), atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "lenet-caffe", "cnn", "cnn-small"])
def test_plain_models_are_sequences_of_named_layers(name):
    model = create(name, 0)
    assert isinstance(model, nn.Sequential)
    assert not any(part.isdigit() for part, _ in model.named_children())


@pytest.mark.parametrize("name", ["shufflenet-x0.5-cifar", "resnet18-cifar"])
def test_the_small_image_stem_keeps_the_image_size(name):
    model = create(name, 0).eval()
    stem = nn.Sequential(model.conv1, model.maxpool)
    assert stem(torch.zeros(1, 3, 32, 32)).shape[-2:] == (32, 32)


def test_the_stock_stem_shrinks_images_fourfold():
    model = create("shufflenet-x0.5", 0).eval()
    assert model.maxpool(model.conv1(torch.zeros(1, 3, 224, 224))).shape == (1, 24, 56, 56)


def test_the_shuffle_interleaves_the_two_halves_of_the_channels():
    first, second = torch.arange(24.0).reshape(2, 3, 2, 2), -torch.arange(24.0).reshape(2, 3, 2, 2)
    shuffled = torch.stack([first[:, 0], second[:, 0], first[:, 1], second[:, 1], first[:, 2], second[:, 2]], dim=1)
    for form in (torch.contiguous_format, torch.channels_last):
        found = interleave(first.contiguous(memory_format=form), second.contiguous(memory_format=form))
        assert torch.equal(found, shuffled)
        assert found.is_contiguous(memory_format=form)


@pytest.mark.parametrize("side", [1, 2, 9])
@pytest.mark.parametrize("layer", [Pointwise(40, 60), Depthwise(40, 1), Depthwise(40, 2)])
def test_fast_forms_of_convolutions_are_the_convolutions(layer, side):
    x = torch.randn(16, 40, side, side)
    plain = nn.functional.conv2d(x, layer.weight, None, layer.stride, layer.padding, 1, layer.groups)
    assert torch.allclose(layer(x), plain, atol=1e-5)


def test_shufflenet_refuses_a_width_that_was_never_published():
    with pytest.raises(SettingsError, match=r"0\.5, 1\.0, 1\.5, 2\.0, not 0\.7"):
        shufflenet(width=0.7)


def test_an_lstm_reads_an_image_row_by_row():
    model = create("lstm", 0)
    image = torch.randn(2, 1, 28, 28)
    assert torch.equal(model(image), model(image[:, 0]))


def test_torchvision_names_its_parts_as_we_do():
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    for ours, theirs in (("shufflenet-x1.0", "shufflenet_v2_x1_0"), ("resnet18", "resnet18")):
        model = create(ours, 0, classes=1000)
        other = getattr(torchvision.models, theirs)(weights=None)
        model.load_state_dict(other.state_dict())
        x = torch.randn(2, 3, 64, 64)
        assert torch.allclose(model.eval()(x), other.eval()(x), atol=1e-5)


def test_every_factory_named_in_the_registry_can_be_imported():
    for spec in registry.MODELS.values():
        assert spec.citation
        module, _, function = spec.factory.partition(":")
        assert callable(getattr(__import__(module, fromlist=[function]), function))
