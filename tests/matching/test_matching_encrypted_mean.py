"""The paper's variant with encrypted means. Keys take a second to make, so the tests are few."""

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


@settings(max_examples=3, deadline=None)
@given(pairs(largest_mean=1e3))
def test_the_error_is_below_1e_5_over_realistic_and_extreme_profiles(profiles):
    expected = divergence(*profiles)
    assert match(SCHEME, *profiles).divergence == pytest.approx(expected, rel=1e-5, abs=1e-5)


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
        ([variances, other_keys(), ciphertext], "not parameter set 1"),
        ([variances, keys, ciphertext[:1000]], "no ciphertext of these keys"),
        ([variances, keys, shorter(keys)], "holds 3 numbers where 4096"),
    ]:
        with pytest.raises(MatchingError, match=text):
            server.receive(resent(reply, payload=encrypted_mean._join(payload)))
    with pytest.raises(MatchingError, match="do not add up"):
        server.receive(resent(reply, payload=unpack(reply).payload + b"x"))


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
