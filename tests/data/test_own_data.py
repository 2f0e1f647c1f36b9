"""A user's own data: read as meant, or an error that says where it is wrong."""

import re

import numpy as np
import pytest
from PIL import Image

from fedprof.data.own import as_raw, from_arrays, from_csv, from_image_folders, from_npz
from fedprof.errors import DataError

TABLE = "temp,press,CO,NOX\n1.5,1000,0.3,80\n2.5,1001,0.4,81\n"


@pytest.fixture
def csv_file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "own.csv"
        path.write_text(text, encoding=encoding)
        return path

    return write


@pytest.fixture
def image_file(tmp_path):
    def write(name, size=(6, 4), mode="L", value=7):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, value).save(path)
        return path

    return write


def test_a_table_for_regression(csv_file):
    samples = from_csv(csv_file(TABLE), targets=["CO", "NOX"])
    assert samples.x.tolist() == [[1.5, 1000], [2.5, 1001]]
    assert np.allclose(samples.y, [[0.3, 80], [0.4, 81]])
    assert (samples.x.dtype, samples.y.dtype) == (np.float32, np.float32)


def test_named_features_come_in_the_order_named(csv_file):
    assert from_csv(csv_file(TABLE), features=["press", "temp"], targets=["CO"]).x[0].tolist() == [1000, 1.5]


def test_a_table_with_labels(csv_file):
    samples = from_csv(csv_file("a,label,b\n1,0,2\n3,2,4\n\n"))
    assert samples.y.tolist() == [0, 2]
    assert samples.y.dtype == np.int64
    assert samples.x.tolist() == [[1, 2], [3, 4]]


def test_a_table_as_a_spreadsheet_saves_it(csv_file):
    samples = from_csv(csv_file('"a", label\r\n" 1.5", 0\r\n', encoding="utf-8-sig"))
    assert (samples.x.tolist(), samples.y.tolist()) == ([[1.5]], [0])


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("", {}, "is empty"),
        ("a,label\n", {}, "is empty"),
        (TABLE, {}, "has no column 'label': it has temp, press, CO, NOX"),
        (TABLE, {"targets": ["NOx"]}, "has no column 'NOx': did you mean 'NOX'?"),
        (TABLE, {"targets": ["CO"], "features": ["tmp"]}, "has no column 'tmp': did you mean 'temp'?"),
        ("a,label\n1,0\nhot,1\n", {}, "row 2, column 'a': 'hot' is not a finite number"),
        ("a,label\n1,0\nnan,1\n", {}, "row 2, column 'a': 'nan' is not a finite number"),
        ("a,label\n1,0\n,1\n", {}, "row 2, column 'a': '' is not a finite number"),
        ("a,label\ninf,0\n", {}, "row 1, column 'a': 'inf' is not a finite number"),
        ("a,label\n1,cat\n", {}, "row 1, column 'label': 'cat' is not a finite number"),
        ("a,label\n1,0.5\n", {}, "row 1, column 'label': 0.5 is not a class number"),
        ("a,label\n1,1e30\n", {}, "row 1, column 'label': 1e+30 is not a class number"),
        ("a,label\n1e60,0\n", {}, "1 inputs are not finite float32 numbers, the first at (0, 0)"),
        ("a,b,label\n1,2,0\n", {"label": "label", "targets": ["b"]}, "not both"),
        ("a,label\n1,-1\n", {}, "label -1 of sample 0 is out of range; labels are 0 or more"),
        ("a,label\n1,0\n1,3\n", {"classes": 3}, "label 3 of sample 1 is out of range; labels are 0 to 2"),
        ("a,label\n1,0,5\n", {}, "line 2: 3 values for 2 columns"),
        ("a,a,label\n1,1,0\n", {}, "two columns of the same name"),
        ("label\n1\n", {}, "inputs have no values"),
        ("a;label\n1;0\n", {}, "has no column 'label': did you mean 'a;label'?"),
    ],
)
def test_a_bad_table_is_an_error_that_says_where(text, columns, message, csv_file):
    with pytest.raises(DataError, match=re.escape(message)):
        from_csv(csv_file(text), **columns)


def test_a_file_that_is_no_text_or_not_there_is_a_clear_error(tmp_path):
    (tmp_path / "own.csv").write_bytes(b"\xff\xfe\x00\x80")
    for name in ("own.csv", "other.csv"):
        with pytest.raises(DataError, match="cannot be read as a CSV file"):
            from_csv(tmp_path / name)


def test_an_archive_of_images(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.zeros((3, 8, 8), np.uint8), y=np.array([0, 1, 1], np.uint8))
    samples = from_npz(tmp_path / "own.npz")
    assert samples.x.shape == (3, 1, 8, 8)
    assert (samples.x.dtype, samples.y.dtype) == (np.uint8, np.int64)


def test_an_archive_of_measurements(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.ones((3, 5)), y=np.array([0.5, 1, 2]))
    samples = from_npz(tmp_path / "own.npz")
    assert (samples.x.dtype, samples.y.shape, samples.y.dtype) == (np.float32, (3, 1), np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((3, 2))}, "lacks the array y"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, "3 inputs but 2 targets"),
        (
            {"x": np.array([[0, np.nan], [np.nan, 1]]), "y": np.zeros(2, int)},
            "2 inputs are not finite float32 numbers, ",
        ),
        ({"x": np.zeros((2, 2)), "y": np.array([1, np.inf])}, "1 targets are not finite float32 numbers"),
        ({"x": np.zeros((2, 2)), "y": np.array([0, -3])}, "label -3 of sample 1 is out of range"),
        ({"x": np.zeros((2, 2)), "y": np.array([0, 10])}, "label 10 of sample 1 is out of range; labels are 0 to 9"),
        ({"x": np.zeros((2, 8, 8, 3), np.uint8), "y": np.zeros(2, int)}, "channels last"),
        ({"x": np.zeros(2), "y": np.zeros(2, int)}, "not numbers (n, features) or images"),
        ({"x": np.array([["a"], ["b"]]), "y": np.zeros(2, int)}, "not numbers (n, features)"),
        ({"x": np.zeros((2, 2)), "y": np.array(["cat", "dog"])}, "not labels (n,) or numbers"),
    ],
)
def test_a_bad_archive_is_an_error_that_says_why(arrays, message, tmp_path):
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        from_npz(tmp_path / "own.npz", classes=10)
    assert "own.npz" in str(caught.value)


def test_an_archive_with_objects_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.array([{}, {}], dtype=object), y=np.zeros(2, int))
    with pytest.raises(DataError, match="cannot be read as a NumPy archive"):
        from_npz(tmp_path / "own.npz")


def test_a_single_array_is_no_archive(tmp_path):
    with (tmp_path / "own.npz").open("wb") as file:
        np.save(file, np.zeros((3, 2)))
    with pytest.raises(DataError, match="lacks the array x and y"):
        from_npz(tmp_path / "own.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"hello"])
def test_a_broken_archive_is_a_clear_error(content, tmp_path):
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a NumPy archive"):
        from_npz(tmp_path / "own.npz")


def test_folders_of_images_are_classes_in_the_order_of_their_names(image_file, tmp_path):
    for name in ("cat/2.png", "cat/1.png", "ant/x.PNG", "dog/y.bmp"):
        image_file(name, value=ord(name[0]))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    samples = from_image_folders(tmp_path)
    assert samples.y.tolist() == [0, 1, 1, 2]
    assert samples.x.shape == (4, 1, 4, 6)
    assert samples.x[:, 0, 0, 0].tolist() == [ord("a"), ord("c"), ord("c"), ord("d")]


def test_one_colour_image_makes_all_of_them_rgb(image_file, tmp_path):
    image_file("a/1.png", value=9)
    image_file("b/2.png", mode="RGB", value=(1, 2, 3))
    samples = from_image_folders(tmp_path)
    assert samples.x.shape == (2, 3, 4, 6)
    assert samples.x[:, :, 0, 0].tolist() == [[9, 9, 9], [1, 2, 3]]


def test_images_of_several_sizes_are_an_error_that_names_them(image_file, tmp_path):
    image_file("a/1.png")
    image_file("a/2.png", size=(6, 5))
    image_file("b/3.png", size=(2, 4))
    with pytest.raises(
        DataError, match=r"1\.png is 6 x 4, but 2 differ, such as .*2\.png \(6 x 5\), .*3\.png \(2 x 4\)"
    ):
        from_image_folders(tmp_path)


def test_a_broken_image_is_an_error_that_names_it(image_file, tmp_path):
    image_file("a/1.png")
    (tmp_path / "a" / "2.png").write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"2\.png cannot be read as an image"):
        from_image_folders(tmp_path)


def test_half_an_image_is_an_error_that_names_it(image_file, tmp_path):
    path = image_file("a/1.png", size=(64, 64))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        from_image_folders(tmp_path)


def test_a_folder_without_images_says_where_they_belong(tmp_path):
    with pytest.raises(DataError, match="holds no images: put them into one folder a class"):
        from_image_folders(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        from_image_folders(tmp_path / "nowhere")


def test_own_samples_can_be_a_task_s_source():
    train = from_arrays(np.zeros((4, 2)), np.array([0, 1, 1, 0]))
    raw = as_raw(train, from_arrays(np.zeros((2, 2)), np.array([2, 0])))
    assert raw.classes == 3
    assert len(as_raw(train).test_y) == 0
    assert as_raw(from_arrays(np.zeros((2, 2)), np.array([0.5, 1.5]))).classes == 0
