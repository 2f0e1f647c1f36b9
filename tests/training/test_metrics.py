"""Accuracy of one sample: right or wrong for classes, relative error for numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof.errors import SettingsError
from fedprof.training.metrics import Regression, classification

PLAIN = Regression(np.zeros(1), np.ones(1))


def accuracy(predicted, true):
    return PLAIN(np.array([[predicted]], np.float32), np.array([[true]], np.float32))[0]


def test_a_class_is_right_when_its_output_is_the_largest():
    outputs = np.array([[0.1, 0.9], [0.9, 0.1], [-np.inf, 0.0]], np.float32)
    assert classification(outputs, np.array([1, 1, 1])).tolist() == [1, 0, 1]


def test_a_diverged_classifier_is_never_right():
    assert classification(np.full((2, 3), np.nan, np.float32), np.array([0, 1])).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("predicted", "true", "expected"), [(3, 4, 0.75), (4, 3, 0.75), (5, 5, 1), (1, 100, 0.01), (100, 1, 0.01)]
)
def test_positive_values_follow_the_papers_formula(predicted, true, expected):
    assert accuracy(predicted, true) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predicted", "true", "expected"), [(-3, 4, 0), (0, 4, 0), (4, 0, 0), (0, 0, 1), (-3, -4, 0.75)]
)
def test_values_that_are_not_positive_have_a_documented_accuracy(predicted, true, expected):
    assert accuracy(predicted, true) == pytest.approx(expected)


@pytest.mark.parametrize("predicted", [np.nan, np.inf, -np.inf])
def test_a_diverged_regression_has_no_accuracy(predicted):
    assert accuracy(predicted, 1) == 0


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32))
def test_regression_accuracy_is_symmetric_and_in_the_unit_interval(a, b):
    assert 0 <= accuracy(a, b) <= 1
    assert accuracy(a, b) == accuracy(b, a)
    assert accuracy(a, a) == 1


def test_accuracy_is_taken_on_the_raw_scale_and_averaged_over_outputs():
    metric = Regression(np.array([10.0, 100.0]), np.array([2.0, 50.0]))
    predicted, true = np.array([[1.0, 0.0]], np.float32), np.array([[-1.0, 1.0]], np.float32)
    assert metric(predicted, true)[0] == pytest.approx(((1 - 4 / 12) + (1 - 50 / 150)) / 2)


def test_a_model_with_a_single_flat_output_is_accepted():
    assert PLAIN(np.array([3, 4], np.float32), np.array([4, 4], np.float32)).tolist() == [0.75, 1]


@pytest.mark.parametrize(("mean", "std"), [([0.0], [0.0]), ([0.0], [-1.0]), ([np.nan], [1.0]), ([0.0], [np.inf])])
def test_a_scale_that_cannot_be_undone_is_refused(mean, std):
    with pytest.raises(SettingsError, match="finite mean and a positive std"):
        Regression(np.array(mean), np.array(std))
