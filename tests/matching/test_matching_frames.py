import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof.errors import MatchingError
from fedprof.matching import frames
from fedprof.matching.frames import Frame, Kind, Scheme

FRAME = Frame(Scheme.MASKED, Kind.FIRST, 84, 7, b"payload", 1, bytes(range(16)))


@given(
    st.builds(
        Frame,
        st.sampled_from(Scheme),
        st.sampled_from(Kind),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**64 - 1),
        st.binary(max_size=50),
        st.integers(0, 255),
        st.binary(min_size=16, max_size=16),
    )
)
def test_a_message_is_read_as_it_was_written(frame):
    message = frame.pack()
    assert frames.unpack(message) == frame
    assert len(message) == frames.OVERHEAD + len(frame.payload)


@pytest.mark.parametrize("at", range(len(FRAME.pack())))
def test_any_altered_byte_is_noticed(at):
    message = bytearray(FRAME.pack())
    message[at] ^= 0x10
    with pytest.raises(MatchingError):
        frames.unpack(bytes(message))


@pytest.mark.parametrize("message", [b"", b"x" * 20, FRAME.pack()[:-1], FRAME.pack() + b"x"])
def test_a_message_of_the_wrong_length_is_refused(message):
    with pytest.raises(MatchingError, match="bytes"):
        frames.unpack(message)


@pytest.mark.parametrize(("at", "text"), [(0, "not a matching message"), (4, "format 1"), (5, "scheme or kind")])
def test_another_format_or_scheme_is_refused_even_with_a_right_checksum(at, text):
    body = bytearray(FRAME.pack()[:-4])
    body[at] = 99
    with pytest.raises(MatchingError, match=text):
        frames.unpack(bytes(body) + zlib.crc32(body).to_bytes(4, "little"))


def test_a_frame_for_something_else_is_refused():
    assert FRAME.require(Scheme.MASKED, Kind.FIRST, 1) is FRAME
    for expected in [(Scheme.CLIENT, Kind.FIRST, 1), (Scheme.MASKED, Kind.SECOND, 1), (Scheme.MASKED, Kind.FIRST, 2)]:
        with pytest.raises(MatchingError, match="MASKED FIRST with parameter set 1"):
            FRAME.require(*expected)


@pytest.mark.parametrize(("q", "version", "key", "text"), [
    (85, 7, FRAME.key, "length 84, not 85"),
    (84, 8, FRAME.key, "version 7, not 8"),
    (84, 7, bytes(16), "another exchange"),
])  # fmt: skip
def test_a_frame_about_another_profile_version_or_key_is_refused(q, version, key, text):
    with pytest.raises(MatchingError, match=text):
        FRAME.require_match(q, version, key)


def test_a_payload_of_the_wrong_size_is_refused():
    assert FRAME.require_size(7) is FRAME
    with pytest.raises(MatchingError, match="7 bytes where 8"):
        FRAME.require_size(8)
