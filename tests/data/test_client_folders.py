"""A folder with one data set a client."""

import numpy as np
import pytest
from PIL import Image

from fedprof.data.folders import client_names, from_folder
from fedprof.errors import DataError


@pytest.fixture
def npz(tmp_path):
    def write(name, y, x=None):
        y = np.array(y)
        np.savez(tmp_path / f"{name}.npz", x=np.full((len(y), 3), len(y), float) if x is None else x, y=y)

    return write


def test_clients_are_numbered_in_the_order_of_their_names(npz, tmp_path):
    npz("validation", [0, 1, 2])
    npz("b", [2, 1])
    npz("a", [0])
    (tmp_path / "README.txt").write_text("left alone")
    clients, validation = from_folder(tmp_path)
    assert client_names(tmp_path) == ["a", "b"]
    assert clients.sizes.tolist() == [1, 2]
    assert clients.samples(1)[1].tolist() == [2, 1]
    assert len(validation) == 3


def test_a_client_with_one_sample_is_accepted(npz, tmp_path):
    npz("validation", [0, 1])
    npz("lonely", [1])
    clients, _ = from_folder(tmp_path)
    assert clients.samples(0)[0].shape == (1, 3)


def test_a_client_without_samples_is_an_error_that_names_it(npz, tmp_path):
    npz("validation", [0, 1])
    npz("empty", np.zeros(0, int))
    with pytest.raises(DataError, match=r"empty\.npz holds no samples"):
        from_folder(tmp_path)


def test_tables(tmp_path):
    for name, rows in (("validation", "1,0.5\n"), ("a", "2,0.1\n3,0.2\n")):
        (tmp_path / f"{name}.csv").write_text(f"in,out\n{rows}")
    clients, _ = from_folder(tmp_path, targets=["out"])
    assert clients.samples(0)[0].tolist() == [[2], [3]]
    assert np.allclose(clients.samples(0)[1], [[0.1], [0.2]])


def test_columns_are_read_by_name_whatever_their_order(tmp_path):
    for name, text in (("validation", "a,b,label\n1,2,0\n"), ("x", "extra,label,b,a\n9,0,20,10\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    clients, validation = from_folder(tmp_path)
    assert validation.x.tolist() == [[1, 2]]
    assert clients.samples(0)[0].tolist() == [[10, 20]]


def test_a_client_that_lacks_a_column_is_named(tmp_path):
    for name, text in (("validation", "a,b,label\n1,2,0\n"), ("x", "a,label\n9,0\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    with pytest.raises(DataError, match=r"x\.csv has no column 'b'"):
        from_folder(tmp_path)


def test_classes_mean_the_same_at_every_client(tmp_path):
    for name in ("validation/cat/1", "validation/dog/1", "a/dog/1", "b/cat/1"):
        path = tmp_path / f"{name}.png"
        path.parent.mkdir(parents=True)
        Image.new("L", (4, 4)).save(path)
    clients, validation = from_folder(tmp_path)
    assert validation.y.tolist() == [0, 1]
    assert clients.samples(0)[1].tolist() == [1], "client a has dogs only, and a dog is class 1 everywhere"
    assert clients.samples(1)[1].tolist() == [0]


def test_a_class_that_the_server_cannot_check_is_an_error(npz, tmp_path):
    npz("validation", [0, 1])
    npz("a", [0, 7])
    with pytest.raises(DataError, match="client 'a' has the label 7, but the validation set's labels end at 1"):
        from_folder(tmp_path)


def test_inputs_of_another_shape_are_an_error(npz, tmp_path):
    npz("validation", [0, 1])
    npz("a", [0, 1], np.zeros((2, 4)))
    with pytest.raises(
        DataError, match=r"client 'a' holds float32 inputs \(4,\).*the validation set float32 inputs \(3,\)"
    ):
        from_folder(tmp_path)


@pytest.mark.parametrize("names", [[], ["validation"], ["a", "b"]])
def test_both_clients_and_validation_are_needed(names, npz, tmp_path):
    for name in names:
        npz(name, [0])
    with pytest.raises(DataError, match=r"needs one data set a client .* and one called 'validation'"):
        from_folder(tmp_path)


def test_two_data_sets_of_one_name_are_an_error(npz, tmp_path):
    npz("validation", [0])
    npz("a", [0])
    (tmp_path / "a.csv").write_text("in,label\n1,0\n")
    with pytest.raises(DataError, match="two data sets called 'a'"):
        from_folder(tmp_path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        from_folder(tmp_path / "nowhere")
