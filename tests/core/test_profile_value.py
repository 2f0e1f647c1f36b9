"""A profile is an immutable value of 8q bytes plus a small header, and reading one is strict."""

import copy
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof import Profile
from fedprof.core.profile import HEADER_BYTES, MAX_Q
from fedprof.errors import FedProfError, ProfileError

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
positive = st.floats(width=32, min_value=0, allow_nan=False, allow_infinity=False)


@st.composite
def profiles(draw):
    q = draw(st.integers(1, 8))
    mean = draw(st.lists(finite, min_size=q, max_size=q))
    variance = draw(st.lists(positive, min_size=q, max_size=q))
    return Profile(mean, variance, draw(st.integers(1, 2**40)), draw(st.integers(0, 2**40)))


def forged(values, q, count=4, version=0, magic=b"FDPF", fmt=1):
    """A message whose checksum is right whatever its content."""
    header = struct.pack("<4sIIQQ", magic, fmt, q, version, count)
    body = np.array(values, dtype="<f4").tobytes()
    return header + struct.pack("<I", zlib.crc32(header + body)) + body


@given(profiles())
def test_bytes_round_trip(profile):
    again = Profile.from_bytes(profile.to_bytes())
    assert again == profile
    assert hash(again) == hash(profile)
    assert again.to_bytes() == profile.to_bytes()


@pytest.mark.parametrize("given", [None, 8, [1, 2], "text"])
def test_only_bytes_are_read(given):
    with pytest.raises(ProfileError, match="read from bytes"):
        Profile.from_bytes(given)


@pytest.mark.parametrize("mean", [["a"], [[1], [1, 2]], [1j], [True], [None]])
def test_only_real_numbers_are_values(mean):
    with pytest.raises(ProfileError, match=r"mean (is no array of|holds)"):
        Profile(mean, [1.0], count=1)


@given(profiles())
def test_a_profile_costs_8q_bytes_and_a_fixed_header(profile):
    assert len(profile.to_bytes()) == HEADER_BYTES + 8 * profile.q
    assert HEADER_BYTES == 32


def test_the_wire_format_never_changes_silently():
    assert Profile([1.5, -2], [0.25, 3], count=7, version=3).to_bytes() == forged([1.5, -2, 0.25, 3], 2, 7, 3)


def test_any_change_of_any_single_byte_is_an_error():
    good = Profile([0.5, -1.25, 3e-5], [0.1, 0, 7], count=31, version=2).to_bytes()
    for position in range(len(good)):
        for value in set(range(256)) - {good[position]}:
            bad = good[:position] + bytes([value]) + good[position + 1 :]
            with pytest.raises(ProfileError):
                Profile.from_bytes(bad)


def test_any_wrong_length_is_an_error():
    good = Profile([1, 2], [3, 4], count=5).to_bytes()
    for length in range(len(good)):
        with pytest.raises(ProfileError, match="bytes"):
            Profile.from_bytes(good[:length])
    with pytest.raises(ProfileError, match="padded"):
        Profile.from_bytes(good + b"\0")


@given(st.binary(max_size=80))
def test_noise_is_an_error(data):
    with pytest.raises(ProfileError):
        Profile.from_bytes(data)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (forged([1, 2], 1, magic=b"GIF8"), "GIF8"),
        (forged([1, 2], 1, fmt=2), "format 2 is unknown"),
        (forged([], 0), "q = 0"),
        (forged([], MAX_Q + 1), f"between 1 and {MAX_Q}"),
        (forged([1, 2], 2**31), "q = 2147483648"),
        (forged([np.nan, 2], 1), r"mean\[0\] is nan"),
        (forged([1, 2, 3, np.inf], 2), r"variance\[1\] is inf"),
        (forged([1, 2, 3, -4], 2), r"variance\[1\] is -4.0: a variance cannot be negative"),
        (forged([1, 2], 1, count=0), "count is 0"),
    ],
)
def test_a_well_formed_message_with_impossible_content_is_an_error(message, says):
    with pytest.raises(ProfileError, match=says):
        Profile.from_bytes(message)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1, 2], [1], 3), "2 means but 1 variances"),
        (([[1]], [[1]], 3), "shape"),
        (([], [], 3), "q = 0"),
        (([1e39], [1], 3), "inf in float32"),
        (([1], [-1e-9], 3), "negative"),
        (([1], [1], 0), "count"),
        (([1], [1], 2.5), "count"),
        (([1], [1], True), "count"),
        (([1], [1], 3, -1), "version"),
        (([1], [1], 3, 2**64), "version"),
    ],
)
def test_a_profile_no_data_can_give_is_not_constructed(arguments, says):
    with pytest.raises(ProfileError, match=says):
        Profile(*arguments)


def test_errors_can_be_caught_as_the_library_s_or_as_value_errors():
    assert issubclass(ProfileError, FedProfError)
    assert issubclass(ProfileError, ValueError)


def test_a_profile_cannot_be_changed():
    source = np.ones(3, np.float32)
    profile = Profile(source, source, count=2)
    source[0] = 5
    assert profile.mean[0] == 1
    for candidate in (profile, copy.deepcopy(profile), pickle.loads(pickle.dumps(profile))):
        assert candidate == profile
        with pytest.raises(ValueError, match="read-only"):
            candidate.mean[0] = 9
        with pytest.raises(ValueError, match="WRITEABLE"):
            candidate.variance.setflags(write=True)
    with pytest.raises(AttributeError):
        profile.count = 3


def test_equality_is_by_value():
    one = Profile([1, -0.0], [0, 2], count=3, version=1)
    assert one == Profile([1, 0.0], [-0.0, 2], count=3, version=1)
    assert len({one, Profile([1, 0.0], [0, 2], count=3, version=1)}) == 1
    for other in (
        Profile([1, 0], [0, 2], count=4, version=1),
        Profile([1, 0], [0, 2], count=3, version=2),
        Profile([1, 1], [0, 2], count=3, version=1),
        Profile([1, 0], [1, 2], count=3, version=1),
        "a profile",
    ):
        assert one != other
