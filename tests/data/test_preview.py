"""The picture of what each kind of client holds."""

import numpy as np
import pytest
from PIL import Image

from fedprof.data import partition as deal
from fedprof.data.build import client_data
from fedprof.data.preview import preview
from fedprof.randomness import stream


def of_digits(real, damage):
    x, y = real("digits").train_x, real("digits").train_y
    return client_data(x, y, deal.iid(len(y), 20, stream(0, "partition")), damage, 0)


def of_table(damage):
    x = stream(0, "x").normal(size=(400, 3)).astype(np.float32)
    return client_data(x, x[:, :1], deal.iid(400, 8, stream(0, "partition")), damage, 0)


def size(path):
    with Image.open(path) as image:
        return image.size


@pytest.mark.parametrize("make", ["digits", "table"])
def test_every_kind_of_client_has_its_row(make, real, tmp_path):
    name = "missing" if make == "digits" else "polluted"
    plain, damaged = (
        of_digits(real, damage) if make == "digits" else of_table(damage) for damage in ({}, {name: {"share": 0.5}})
    )
    one, two = preview(plain, tmp_path / "1.png"), preview(damaged, tmp_path / "2.png")
    assert size(two)[0] == size(one)[0]
    assert 1.5 < size(two)[1] / size(one)[1] < 2


def test_only_the_kinds_that_exist_are_drawn(real, tmp_path):
    one = preview(of_digits(real, {"blur": {"share": 0.3}}), tmp_path / "a.png")
    none_of_it = preview(of_digits(real, {"blur": {"share": 0.3}, "pixel": {"share": 0.0}}), tmp_path / "b.png")
    assert size(none_of_it) == size(one)


def test_the_rows_are_named_with_their_numbers_of_clients(real, tmp_path):
    path = preview(of_digits(real, {"blur": {"share": 0.3}}), tmp_path / "a.svg")
    text = path.read_text()
    assert "<!-- normal" in text
    assert "14 clients -->" in text
    assert "6 clients -->" in text


def test_a_client_with_few_samples_leaves_the_rest_of_its_row_empty(real, tmp_path):
    x, y = real("digits").train_x[:4], real("digits").train_y[:4]
    data = client_data(x, y, deal.iid(4, 4, stream(0, "p")), {}, 0)
    assert preview(data, tmp_path / "a.png").is_file()


def test_colours_are_drawn(tmp_path):
    x = np.zeros((4, 3, 8, 8), np.uint8)
    x[:, 0] = 255
    path = preview(client_data(x, np.zeros(4, np.int64), deal.iid(4, 1, stream(0, "p")), {}, 0), tmp_path / "a.png")
    with Image.open(path) as image:
        assert (255, 0, 0) in {colour[:3] for _, colour in image.getcolors(1 << 20)}


def test_channels_that_are_no_colours_are_drawn_as_their_mean(tmp_path):
    x = np.zeros((4, 2, 8, 8), np.float32)
    data = client_data(x, np.zeros(4, np.int64), deal.iid(4, 1, stream(0, "p")), {}, 0)
    assert preview(data, tmp_path / "a.png").is_file()
