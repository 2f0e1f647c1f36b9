"""The masked scheme: exact enough, and silent about everything but one number."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from masked_exchange import MASKED, exchange, impossible, key_of, parts, resent, secret_of, seed_of
from profile_pairs import pair, pairs

from fedprof.core.divergence import divergence
from fedprof.core.profile import Profile
from fedprof.errors import MatchingError
from fedprof.matching import masked, match, ring
from fedprof.matching.frames import Kind, unpack


def error(profile, baseline):
    expected = divergence(profile, baseline)
    return abs(match(MASKED, profile, baseline).divergence - expected) / max(1.0, expected)


@settings(max_examples=40, deadline=None)
@given(pairs())
def test_the_error_is_below_1e_5_over_realistic_and_extreme_profiles(profiles):
    assert error(*profiles) < 1e-5


@settings(max_examples=30, deadline=None)
@given(pairs(largest_mean=masked.LIMIT, variances=(-13.0, 10.5)))
def test_the_error_is_below_1e_5_over_all_that_is_accepted(profiles):
    assert error(*profiles) < 1e-5


@pytest.mark.parametrize("q", [1, 64, 1024, 4096, 4097, 10_000])
def test_any_length_works_in_as_many_ciphertexts_as_it_needs(q):
    assert error(*pair(q)) < 1e-5
    ciphertexts = math.ceil(q / 4096)
    assert MASKED.costs(q).bytes_up - MASKED.costs(1).bytes_up == (ciphertexts - 1) * ring.POLYNOMIAL_BYTES


@pytest.mark.parametrize("mean", [-masked.LIMIT, masked.LIMIT])
def test_the_largest_divergence_that_is_accepted_does_not_wrap(mean):
    q = 64
    profile = Profile(np.full(q, mean), np.full(q, masked.LIMIT**2), 10, 0)
    baseline = Profile(np.full(q, -mean), np.zeros(q), 10, 0)
    assert error(profile, baseline) < 1e-5
    assert masked.MAX_Q * 5 * masked.LIMIT**2 / 2e-12 * 2.0**masked.TOTAL_BITS < ring.Q / 2


@pytest.mark.parametrize(
    "profile",
    [
        Profile(np.array([masked.LIMIT * 1.01]), np.ones(1), 1, 3),
        Profile(np.zeros(1), np.array([masked.LIMIT**2 * 1.01]), 1, 3),
    ],
)
def test_a_profile_that_would_wrap_is_refused_on_either_side(profile):
    _, baseline = pair(1)
    with pytest.raises(MatchingError, match="use matching='client'"):
        MASKED.client().first(MASKED.server(baseline).ask(), profile)
    with pytest.raises(MatchingError, match="use matching='client'"):
        MASKED.server(profile)


def test_a_longer_profile_than_the_sum_can_hold_is_refused():
    q = masked.MAX_Q + 1
    with pytest.raises(MatchingError, match="q up to 65536"):
        MASKED.server(Profile(np.zeros(q), np.ones(q), 1, 0))


def test_every_profile_has_a_key_of_its_own():
    (a, _, first, _), (b, _, again, _) = exchange(), exchange()
    assert (secret_of(a) != secret_of(b)).mean() > 0.99
    assert unpack(first).key != unpack(again).key
    assert all((x != y).mean() > 0.99 for x, y in zip(parts(first), parts(again), strict=True))


def test_another_clients_key_does_not_open_a_message():
    (_, _, _, answer), (stranger, *_), (other, *_) = exchange(seed=0), exchange(seed=1), exchange(seed=2)
    with pytest.raises(MatchingError, match="another exchange"):
        other.second(answer)
    with pytest.raises(MatchingError, match="no baseline gives that"):
        stranger.second(resent(answer, key=key_of(stranger)))


def test_what_the_client_sends_looks_uniform():
    _, _, reply, _ = exchange()
    for polynomial in parts(reply):
        for row, p in zip(polynomial, ring.PRIMES, strict=True):
            counts = np.histogram(row, bins=16, range=(0, p))[0]
            assert ((counts - 512) ** 2 / 512).sum() < 60


def test_the_answer_holds_one_polynomial_and_one_number_so_no_other_coefficient():
    *_, answer = exchange()
    assert len(unpack(answer).payload) == ring.POLYNOMIAL_BYTES + ring.SCALAR_BYTES


def test_dividing_the_answer_by_the_ciphertext_does_not_give_the_baseline():
    profile, baseline = pair(8)
    client, server = MASKED.client(), MASKED.server(baseline)
    question = server.ask()
    (hidden,) = parts(server.receive(client.first(question, profile)))
    (coefficients,), _ = masked._coefficients(baseline)
    factor = ring.reversed_polynomial(coefficients)
    data = ring.expand(unpack(question).payload, "1")
    assert (hidden != ring.times(factor, data)).mean() > 0.999
    mask = ring.minus(hidden, ring.times(factor, data))
    for row, p in zip(mask, ring.PRIMES, strict=True):
        counts = np.histogram(row, bins=16, range=(0, p))[0]
        assert ((counts - 512) ** 2 / 512).sum() < 60


def test_a_tenseal_product_plus_a_zero_sum_mask_would_show_the_baseline():
    """Why the scheme is not that: the mask is real, so the imaginary parts keep noise times coefficient."""
    ts = pytest.importorskip("tenseal")
    context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60])
    context.global_scale = 2.0**40
    rng = np.random.default_rng(0)
    coefficients, mask = rng.uniform(1, 50, 4096), rng.normal(0, 1e3, 4096)
    sent = ts.ckks_vector(context, rng.normal(size=4096).tolist())
    answer = sent * coefficients.tolist() + (mask - mask.mean()).tolist()
    guessed = complex_slots(context, answer).imag / complex_slots(context, sent).imag
    assert np.median(abs(guessed / coefficients - 1)) < 0.15


def complex_slots(context, vector):
    seal = pytest.importorskip("tenseal.sealapi")
    inside, plain = context.seal_context().data, seal.Plaintext()
    seal.Decryptor(inside, context.secret_key().data).decrypt(vector.ciphertext()[0], plain)
    return np.array(seal.CKKSEncoder(inside).decode_complex(plain))


def test_answers_to_one_message_are_masked_afresh():
    profile, baseline = pair(8)
    client, server = MASKED.client(), MASKED.server(baseline)
    reply = client.first(server.ask(), profile)
    twin = MASKED.server(baseline)
    twin._seed = server._seed
    (a,), (b,) = parts(server.receive(reply)), parts(twin.receive(reply))
    assert (a != b).mean() > 0.999


def seen_by_the_client(q, times):
    """What it decrypts, in units of the divergence, when the same profile meets the same baseline again and again."""
    profile, baseline = pair(q)
    seen = []
    for _ in range(times):
        client, server = MASKED.client(), MASKED.server(baseline)
        answer = unpack(server.receive(client.first(server.ask(), profile)))
        seen.append(masked._decrypt(answer, seed_of(client)) / q)
    return np.array(seen)


@pytest.mark.parametrize("q", [1, 8, 4096])
def test_the_client_sees_its_divergence_no_finer_than_24_bits(q):
    seen = seen_by_the_client(q, times=16)
    assert 2.0**-25.5 < np.ptp(seen) < 2.0**-23.9  # 16 uniform draws from 2**-24 spread less once in 10**3.7
    assert len(set(seen)) == 16


def test_noise_drowns_all_but_the_upper_119_bits_of_the_answer():
    spread = np.ptp(seen_by_the_client(1, times=16)) * 2.0**masked.TOTAL_BITS
    assert math.log2(ring.Q) - math.log2(spread) < 120.5


def test_the_server_learns_twenty_bits_of_one_number():
    client, server, _, answer = exchange()
    reply = unpack(client.second(answer))
    assert len(reply.payload) == 8
    assert (server.finish(reply.pack()) * 2**20).is_integer()


def test_an_answer_is_decrypted_once():
    client, _, _, answer = exchange()
    client.second(answer)
    with pytest.raises(MatchingError, match="matched already"):
        client.second(answer)
    assert len(client.state()) == 8, "the key is forgotten"


REFUSED = {
    "too much": {"payload": impossible(1)},
    "too little": {"payload": impossible(-1)},
    "another version": {"version": 9},
    "another key": {"key": bytes(16)},
    "cut short": {"payload": b"short"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_answer_that_is_refused_uses_up_the_key_too(case):
    """Else a server could send answer after answer and read the number off what is refused and what is not."""
    client, _, _, answer = exchange()
    with pytest.raises(MatchingError):
        client.second(resent(answer, **REFUSED[case]))
    assert len(client.state()) == 8, "the key is forgotten"
    with pytest.raises(MatchingError, match="no exchange is open"):
        client.second(answer)


def test_bytes_that_are_no_answer_use_up_the_key():
    client, _, _, answer = exchange()
    for message in (b"garbage" * 20, answer):
        with pytest.raises(MatchingError):
            client.second(message)


def test_the_server_answers_one_ciphertext_an_exchange():
    _, server, reply, _ = exchange()
    with pytest.raises(MatchingError, match="answered already"):
        server.receive(reply)


@pytest.mark.parametrize(("change", "text"), [
    ({"parameters": 1}, "parameter set"),
    ({"version": 9}, "version 9"),
    ({"q": 9}, "length 9"),
    ({"key": bytes(16)}, "another exchange"),
    ({"payload": b"short"}, "5 bytes"),
    ({"kind": Kind.SECOND}, "SECOND"),
])  # fmt: skip
def test_an_answer_that_does_not_belong_to_the_profile_is_refused(change, text):
    client, _, _, answer = exchange()
    with pytest.raises(MatchingError, match=text):
        client.second(resent(answer, **change))


@pytest.mark.parametrize(("change", "text"), [
    ({"parameters": 1}, "parameter set"),
    ({"payload": b"short"}, "5 bytes"),
    ({"payload": b"\xff" * 2 * ring.POLYNOMIAL_BYTES}, "not reduced"),
    ({"q": 4097}, "length 4097"),
])  # fmt: skip
def test_a_malformed_ciphertext_is_refused_by_the_server(change, text):
    profile, baseline = pair(8)
    client, server = MASKED.client(), MASKED.server(baseline)
    reply = client.first(server.ask(), profile)
    with pytest.raises(MatchingError, match=text):
        server.receive(resent(reply, **change))
    server.receive(reply)


def test_a_number_from_another_exchange_is_refused_by_the_server():
    (client, _, _, answer), (_, other, _, _) = exchange(), exchange()
    with pytest.raises(MatchingError, match="another exchange"):
        other.finish(client.second(answer))


def test_a_question_without_a_seed_is_refused():
    profile, baseline = pair(8)
    with pytest.raises(MatchingError, match="31 bytes"):
        MASKED.client().first(resent(MASKED.server(baseline).ask(), payload=bytes(31)), profile)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_an_answer_that_is_noise_is_refused_not_reported(seed):
    client, _, _, answer = exchange()
    noise = ring.to_bytes(ring.expand(seed.to_bytes(32, "little"), "noise"))
    with pytest.raises(MatchingError, match="no baseline gives that"):
        client.second(resent(answer, payload=noise + bytes(ring.SCALAR_BYTES)))


def test_a_refusal_does_not_tell_the_number_it_refuses():
    """Over Flower its text goes to the server."""
    refused = []
    for sign in (-1, 1):
        client, _, _, answer = exchange()
        with pytest.raises(MatchingError, match="no baseline gives that") as error:
            client.second(resent(answer, payload=impossible(sign)))
        refused.append(str(error.value))
    for mean in (1e6, 2e6):
        profile, question = Profile([mean], [1.0], 1), MASKED.server(Profile([0.0], [1.0], 1)).ask()
        with pytest.raises(MatchingError, match="go beyond") as error:
            MASKED.client().first(question, profile)
        refused.append(str(error.value))
    assert len(set(refused)) == 2
