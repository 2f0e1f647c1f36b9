"""The paper's variant with encrypted means. Keys take a second to make, so the tests are few."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from profile_pairs import pair, pairs

from fedprof.core.divergence import divergence
from fedprof.core.profile import Profile
from fedprof.errors import MatchingError
from fedprof.matching import encrypted_mean, make, match
from fedprof.matching.frames import Frame, unpack

tenseal = pytest.importorskip("tenseal")
SCHEME = make("encrypted-mean")


@pytest.fixture(autouse=True, scope="module")
def _one_key_for_all_tests():
    """Making keys is TenSEAL's business and slow; one test below makes its own."""
    keys = encrypted_mean.new_keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encrypted_mean, "new_keys", lambda: keys)
        yield


def resent(message, **changes):
    return Frame(**{**unpack(message).__dict__, **changes}).pack()


def right_or_refused(profile, baseline):
    """Never wrong: beyond its range the scheme refuses, and says whose numbers are out of range."""
    expected = divergence(profile, baseline)
    try:
        found = match(SCHEME, profile, baseline).divergence
    except MatchingError as error:
        if not re.search("the (client|baseline)'s go beyond|the client's variances differ", str(error)):
            raise
        return False
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    return True


@settings(max_examples=10, deadline=None)
@given(pairs(largest_mean=1e3, variances=(-4.0, 6.0), longest=600))
def test_the_error_is_below_1e_5_over_realistic_and_extreme_profiles(profiles):
    profile, baseline = profiles
    floored = Profile(baseline.mean, np.maximum(baseline.variance, 1e-10), 10, 1)
    assert right_or_refused(profile, floored)


@settings(max_examples=15, deadline=None)
@given(pairs(largest_mean=1e6, variances=(-13.0, 13.0), longest=600))
def test_over_whatever_there_is_the_result_is_right_or_refused(profiles):
    right_or_refused(*profiles)


def flat(q, mean, variance):
    return Profile(np.full(q, mean), np.full(q, variance), 10, 3)


EXTREMES = {
    "as far apart as doubles go": (flat(4, 2.0**29.9, 1), flat(4, -(2.0**29.9), 1), True),
    "close together and far from zero": (flat(16, 2.0**29.9 + 128, 1), flat(16, 2.0**29.9, 1), True),
    "many, far apart": (flat(1000, 2.0**27, 1), flat(1000, -(2.0**27), 1), True),
    "too many, too far apart": (flat(2000, 2.0**29, 1), flat(2000, -(2.0**29), 1), False),
    "dead units in the baseline": (flat(16, 900, 1), flat(16, 0, 0), True),
    "more dead units": (flat(512, 700, 1), flat(512, 0, 0), False),
    "the client's variances far larger": (flat(64, 0, 1e13), flat(64, 0, 1e-3), True),
    "the client's variances too large": (flat(64, 0, 1e30), flat(64, 0, 1e-3), False),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_what_would_wrap_is_refused_and_what_would_not_is_right(case):
    profile, baseline, accepted = EXTREMES[case]
    assert right_or_refused(profile, baseline) == accepted


def test_the_refusal_names_who_is_out_of_range():
    near, far = flat(2000, 0, 1), flat(2000, 2.0**29, 1)
    with pytest.raises(MatchingError, match="the baseline's go beyond"):
        SCHEME.server(far)
    with pytest.raises(MatchingError, match="the client's go beyond"):
        SCHEME.client().first(SCHEME.server(near).ask(), far)
    with pytest.raises(MatchingError, match="the client's variances differ"):
        match(SCHEME, flat(2, 0, 1e32), flat(2, 0, 1e-8))


@pytest.mark.parametrize("q", [1, 4096])
def test_bytes_are_the_stated_costs_within_a_per_cent(q):
    done, costs = match(SCHEME, *pair(q)), SCHEME.costs(q)
    assert done.divergence == pytest.approx(divergence(*pair(q)), rel=1e-6)
    assert done.bytes_up == pytest.approx(costs.bytes_up, rel=0.01)
    assert done.bytes_down == pytest.approx(costs.bytes_down, rel=0.01)


def test_dead_elements_meet_the_same_floor():
    profile = Profile(np.array([0.0, 5.0]), np.array([0.0, 0.0]), 1, 0)
    baseline = Profile(np.array([0.0, 5.0]), np.array([0.0, 1.0]), 5, 0)
    assert match(SCHEME, profile, baseline).divergence == pytest.approx(divergence(profile, baseline), rel=1e-5)


def test_variances_travel_in_the_clear_and_means_do_not():
    profile, baseline = pair(40)
    client, server = SCHEME.client(), SCHEME.server(baseline)
    question = server.ask()
    reply = client.first(question, profile)
    assert baseline.variance.tobytes() in question
    assert profile.variance.tobytes() in reply
    assert profile.mean.tobytes() not in reply
    assert not tenseal.context_from(encrypted_mean._split(unpack(reply))[1]).is_private()


def test_an_exchange_survives_a_restart_and_is_answered_once():
    profile, baseline = pair(4)
    client, server = SCHEME.client(), SCHEME.server(baseline)
    question = server.ask()
    answer = server.receive(client.first(question, profile))
    with pytest.raises(MatchingError, match="version 3 is refused"):
        client.first(question, profile)
    restarted = SCHEME.client(client.state())
    reply = restarted.second(answer)
    assert server.finish(reply) == pytest.approx(divergence(profile, baseline), rel=1e-6)
    with pytest.raises(MatchingError, match="matched already"):
        restarted.second(answer)
    with pytest.raises(MatchingError, match="another exchange"):
        server.finish(resent(reply, key=bytes(16)))


def test_malformed_messages_are_refused():
    profile, baseline = pair(4)
    server = SCHEME.server(baseline)
    with pytest.raises(MatchingError, match="15 bytes of variances"):
        SCHEME.client().first(resent(server.ask(), payload=bytes(15)), profile)
    with pytest.raises(MatchingError, match="holds no variances"):
        SCHEME.client().first(resent(server.ask(), payload=np.full(4, -1, "<f4").tobytes()), profile)
    reply = SCHEME.client().first(server.ask(), profile)
    variances, keys, ciphertext = encrypted_mean._split(unpack(reply))
    for payload, text in [
        ([variances, keys], "do not add up"),
        ([variances, keys, ciphertext, ciphertext], "2 ciphertexts came where 1"),
        ([variances, b"no keys", ciphertext], "no TenSEAL keys"),
        ([variances, other_keys(), ciphertext], "not parameter set 2"),
        ([variances, keys, ciphertext[:1000]], "no ciphertext of these keys"),
        ([variances, keys, shorter(keys)], "holds 3 numbers where 4096"),
    ]:
        with pytest.raises(MatchingError, match=text):
            server.receive(resent(reply, payload=encrypted_mean._join(payload)))
    with pytest.raises(MatchingError, match="do not add up"):
        server.receive(resent(reply, payload=unpack(reply).payload + b"x"))


def without(**saved):
    """Keys as a client sends them, less some."""
    kept = {"public_key": True, "secret_key": False, "galois_keys": True, "relin_keys": True, **saved}
    return bytes(encrypted_mean.new_keys().serialize(**{f"save_{name}": value for name, value in kept.items()}))


def scaled(scale):
    return tenseal.ckks_vector(encrypted_mean.new_keys(), [0.0] * 4096, scale=scale).serialize()


def switched():
    vector = tenseal.ckks_vector(encrypted_mean.new_keys(), [0.0] * 4096)
    return (vector * 1.0).serialize()


UNFIT = {
    "no rotation keys": lambda: (without(galois_keys=False), None),
    "no relinearisation keys": lambda: (without(relin_keys=False), None),
    "too large a scale": lambda: (None, scaled(2.0**100)),
    "too small a scale": lambda: (None, scaled(2.0**20)),
    "a level spent": lambda: (None, switched()),
}


@pytest.mark.parametrize("case", UNFIT)
def test_keys_and_ciphertexts_that_cannot_be_computed_with_are_refused_like_any_malformed_message(case):
    """A server must be able to tell a client's fault from its own."""
    profile, baseline = pair(4)
    server = SCHEME.server(baseline)
    reply = SCHEME.client().first(server.ask(), profile)
    parts = encrypted_mean._split(unpack(reply))
    sent = [new or old for new, old in zip((None, *UNFIT[case]()), parts, strict=True)]
    with pytest.raises(MatchingError):
        server.receive(resent(reply, payload=encrypted_mean._join(sent)))
    server.receive(reply)


def test_its_modulus_is_within_the_guidelines_of_2024():
    assert encrypted_mean.DEGREE == 8192
    assert sum(encrypted_mean.MODULUS_BITS) <= 214


def other_keys():
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60])
    return context.serialize(save_secret_key=False, save_galois_keys=False, save_relin_keys=False)


def shorter(keys):
    return tenseal.ckks_vector(tenseal.context_from(keys), [1.0, 2.0, 3.0]).serialize()


def test_means_too_many_deviations_away_are_refused():
    profile = Profile(np.array([1e4]), np.ones(1), 1, 3)
    baseline = Profile(np.array([1.0]), np.zeros(1), 1, 3)
    with pytest.raises(MatchingError, match="use matching='client'"):
        SCHEME.client().first(SCHEME.server(baseline).ask(), profile)


def test_every_profile_has_a_key_of_its_own(monkeypatch):
    original, made = encrypted_mean.new_keys, []
    monkeypatch.setattr(encrypted_mean, "new_keys", lambda: made.append(1) or original())
    profile, baseline = pair(2)
    for _ in range(2):
        SCHEME.client().first(SCHEME.server(baseline).ask(), profile)
    assert len(made) == 2
