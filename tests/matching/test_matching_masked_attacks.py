"""What dishonest servers and clients can do to the masked scheme: the limits that docs/privacy.md states."""

import math

import numpy as np
import pytest
from masked_exchange import MASKED, exchange, key_of, parts, resent
from profile_pairs import pair

from fedprof.core.profile import Profile
from fedprof.matching import masked, match, ring
from fedprof.matching.frames import Frame, Kind, unpack


def test_a_malicious_server_reads_one_number_of_its_choice():
    """Here the first mean: the limit of what any scheme that computes an unknown linear form can promise."""
    profile, baseline = pair(8)
    client, server = MASKED.client(), MASKED.server(baseline)
    question = server.ask()
    _, ciphertext = parts(client.first(question, profile))
    pick = np.zeros((len(ring.PRIMES), 9), dtype=np.uint64)
    pick[:, 8] = ring.fixed_point([16.0], masked.TOTAL_BITS - masked.MEAN_BITS)[:, 0]  # 8 squares, then the means
    factor = ring.reversed_polynomial(pick)
    logarithms = float(np.log(profile.variance.astype(float)).sum())
    assert logarithms < 0, "added by the client whatever the server asks"
    number = ring.constant(ring.times(factor, ciphertext)) + int(math.ldexp(100.0, masked.TOTAL_BITS))
    answer = ring.to_bytes(ring.times(factor, ring.expand(unpack(question).payload, "1")))
    payload = answer + (number % ring.Q).to_bytes(ring.SCALAR_BYTES, "little")
    reply = client.second(Frame(masked.MaskedClient.scheme, Kind.ANSWER, 8, 3, payload, 2, key_of(client)).pack())
    learnt = np.frombuffer(unpack(reply).payload)[0]
    assert learnt == pytest.approx(2 * profile.mean[0] + (100 - logarithms / 2) / 8, abs=1e-4)


def test_a_malicious_client_can_understate_its_divergence():
    client, server, _, answer = exchange()
    honest = server.finish(client.second(answer))
    client, server, _, answer = exchange()
    lie = resent(client.second(answer), payload=bytes(8))
    assert server.finish(lie) == 0.0 < honest


def test_enough_colluding_clients_find_the_baseline():
    """2q + 1 divergences of known profiles are linear equations for the baseline's coefficients."""
    rng = np.random.default_rng(5)
    baseline = Profile(np.array([0.7, -0.4]), np.array([0.5, 2.0]), 10, 0)
    rows, numbers = [], []
    for _ in range(5):
        mean, variance = rng.normal(0, 3, 2).astype(np.float32), rng.uniform(0.5, 20, 2).astype(np.float32)
        found = match(MASKED, Profile(mean, variance, 10, 0), baseline).divergence
        rows.append([*(mean.astype(float) ** 2 + variance), *mean, 1.0])
        numbers.append(found + np.log(variance).sum() / 4)
    solution = np.linalg.solve(rows, numbers)
    variance = 1 / (4 * solution[:2])
    assert variance == pytest.approx(baseline.variance, rel=1e-3)
    assert -solution[2:4] * 2 * variance == pytest.approx(baseline.mean, abs=1e-3)


def test_a_server_that_renames_one_model_gets_a_number_for_every_name():
    client = MASKED.client()
    for version in range(3):
        match(MASKED, *pair(4, version=version), client)
