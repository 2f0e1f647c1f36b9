"""What every way to match has in common."""

import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from profile_pairs import pair, pairs

from fedprof.core.divergence import divergence
from fedprof.core.profile import Profile
from fedprof.core.sampling import sample
from fedprof.core.scores import log_scores
from fedprof.errors import MatchingError, MissingExtraError, SettingsError
from fedprof.matching import MATCHINGS, make, match
from fedprof.matching.base import rounded
from fedprof.matching.frames import unpack

LIGHT = ["plain", "client", "masked"]
RATIONED = ["client", "masked"]
TWO_EXCHANGES = ["masked"]


def test_the_four_ways_have_names():
    assert list(MATCHINGS) == ["plain", "client", "masked", "encrypted-mean"]
    assert [make(name).name for name in MATCHINGS] == list(MATCHINGS)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match=r"'secret'.*plain, client, masked, encrypted-mean"):
        make("secret")


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("q", [1, 84])
def test_the_result_is_the_divergence(name, q):
    profile, baseline = pair(q)
    expected = divergence(profile, baseline)
    assert match(make(name), profile, baseline).divergence == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["plain", "client"])
@settings(max_examples=40, deadline=None)
@given(profiles=pairs())
def test_the_error_is_below_1e_5_over_realistic_and_extreme_profiles(name, profiles):
    expected = divergence(*profiles)
    assert match(make(name), *profiles).divergence == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("q", [1, 84, 4097])
def test_the_bytes_on_the_wire_are_the_stated_costs(name, q):
    done, costs = match(make(name), *pair(q)), make(name).costs(q)
    assert (done.bytes_up, done.bytes_down) == (costs.bytes_up, costs.bytes_down)


def test_plain_sends_the_papers_8q_bytes_and_headers():
    grown = make("plain").costs(1084).bytes_up - make("plain").costs(84).bytes_up
    assert grown == 8 * 1000


@pytest.mark.parametrize("name", LIGHT)
def test_costs_do_not_shrink_with_q_and_only_plain_is_free_to_the_client(name):
    small, large = make(name).costs(10), make(name).costs(40_000)
    assert small.client_cycles <= large.client_cycles
    assert small.bytes_up + small.bytes_down <= large.bytes_up + large.bytes_down
    assert (small.client_cycles == 0) == (name == "plain")


@pytest.mark.parametrize("name", LIGHT)
def test_equal_profiles_match_perfectly(name):
    profile, _ = pair(30)
    assert match(make(name), profile, profile).divergence == pytest.approx(0, abs=2e-6)


@pytest.mark.parametrize("name", LIGHT)
def test_the_zero_variance_floor_is_that_of_the_plain_divergence(name):
    profile = Profile(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0]), 1, 0)
    baseline = Profile(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]), 5, 0)
    expected = divergence(profile, baseline)
    assert expected > 1e10
    assert match(make(name), profile, baseline).divergence == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", LIGHT)
def test_a_question_about_another_version_or_length_is_refused(name):
    matching, (_, baseline) = make(name), pair(8, version=3)
    for other, text in [(pair(8, version=4)[0], "version 3, not 4"), (pair(9, version=3)[0], "length 8, not 9")]:
        with pytest.raises(MatchingError, match=text):
            matching.client().first(matching.server(baseline).ask(), other)


@pytest.mark.parametrize("name", LIGHT)
def test_a_reply_about_another_version_or_length_is_refused(name):
    matching, (profile, baseline) = make(name), pair(8, version=3)
    reply = matching.client().first(matching.server(baseline).ask(), profile)
    for other, text in [(pair(8, version=4)[0], "version 3, not 4"), (pair(9, version=3)[0], "length 8, not 9")]:
        with pytest.raises(MatchingError, match=text):
            matching.server(other).receive(reply)


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("other", LIGHT)
def test_sides_of_different_schemes_refuse_each_other(name, other):
    if name != other:
        profile, baseline = pair(8)
        with pytest.raises(MatchingError, match="same matching="):
            make(name).client().first(make(other).server(baseline).ask(), profile)


@pytest.mark.parametrize("name", RATIONED)
def test_a_client_answers_once_for_a_version_and_never_for_an_older_one(name):
    matching = make(name)
    client = matching.client()
    match(matching, *pair(8, version=3), client)
    for version in (3, 2):
        with pytest.raises(MatchingError, match=f"version {version} is refused"):
            match(matching, *pair(8, seed=1, version=version), client)
    match(matching, *pair(8, version=4), client)


@pytest.mark.parametrize("name", RATIONED)
def test_what_was_answered_survives_a_restart_of_the_client(name):
    matching = make(name)
    client = matching.client()
    match(matching, *pair(8, version=3), client)
    with pytest.raises(MatchingError, match="is refused"):
        match(matching, *pair(8, version=3), matching.client(client.state()))


@pytest.mark.parametrize("name", RATIONED)
def test_a_question_uses_up_its_version_before_there_is_a_profile_and_also_if_it_is_refused(name):
    """A refusal can depend on the data, so a server that may go on asking could search for what is refused."""
    matching, (profile, baseline) = make(name), pair(8, version=3)
    begun, refused = matching.client(), matching.client()
    begun.begin(matching.server(baseline).ask())
    with pytest.raises(MatchingError, match="length 9, not 8"):
        refused.first(matching.server(pair(9, version=3)[1]).ask(), profile)
    for client in (begun, matching.client(begun.state()), refused):
        with pytest.raises(MatchingError, match="version 3 is refused"):
            match(matching, profile, baseline, client)


@pytest.mark.parametrize("name", RATIONED)
def test_bytes_that_are_no_question_use_up_nothing(name):
    client = make(name).client()
    with pytest.raises(MatchingError):
        client.first(b"garbage" * 20, pair(8)[0])
    match(make(name), *pair(8), client)


def test_plain_may_be_asked_again_for_it_hides_nothing():
    client = make("plain").client()
    assert match(make("plain"), *pair(8), client).divergence == match(make("plain"), *pair(8), client).divergence


@pytest.mark.parametrize("name", TWO_EXCHANGES)
def test_a_client_that_restarts_between_the_exchanges_goes_on(name):
    matching, (profile, baseline) = make(name), pair(8)
    client, server = matching.client(), matching.server(baseline)
    answer = server.receive(client.first(server.ask(), profile))
    restarted = matching.client(client.state())
    assert server.finish(restarted.second(answer)) == pytest.approx(divergence(profile, baseline), rel=1e-6)


@pytest.mark.parametrize("name", ["plain", "client"])
def test_a_scheme_of_one_exchange_refuses_a_second(name):
    client, server = make(name).client(), make(name).server(pair(8)[1])
    with pytest.raises(MatchingError, match="one exchange"):
        client.second(b"")
    with pytest.raises(MatchingError, match="one exchange"):
        server.finish(b"")


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("message", [b"", b"garbage" * 20])
def test_garbage_is_refused_by_both_sides(name, message):
    matching, (profile, baseline) = make(name), pair(8)
    with pytest.raises(MatchingError):
        matching.client().first(message, profile)
    with pytest.raises(MatchingError):
        matching.server(baseline).receive(message)


def test_a_payload_that_holds_no_profile_is_refused():
    profile, baseline = pair(8)
    reply = make("plain").client().first(make("plain").server(baseline).ask(), profile)
    question = make("client").server(baseline).ask()
    with pytest.raises(MatchingError, match="FIRST message holds no profile"):
        make("plain").server(baseline).receive(cut(reply))
    with pytest.raises(MatchingError, match="QUESTION message holds no profile"):
        make("client").client().first(cut(question), profile)


def cut(message):
    """The message with a payload one byte shorter and a right header."""
    frame = unpack(message)
    return replace(frame, payload=frame.payload[:-1]).pack()


@pytest.mark.parametrize("name", RATIONED)
@pytest.mark.parametrize("seed", range(3))
def test_the_cohort_from_private_scores_is_the_plain_one_unless_scores_tie(name, seed):
    rng = np.random.default_rng(seed)
    baseline = Profile(rng.normal(size=32), rng.random(32) + 0.5, 100, 0)
    mean, variance = baseline.mean, baseline.variance
    clients = [Profile(mean + rng.normal(0, 0.5, 32), variance * rng.uniform(0.5, 2), 10, 0) for _ in range(25)]
    plain = [divergence(p, baseline) for p in clients]
    private = [match(make(name), p, baseline).divergence for p in clients]
    assert np.diff(np.sort(plain)).min() > 1e-5, "this test wants no ties"
    assert np.argsort(plain).tolist() == np.argsort(private).tolist()
    for draw in range(40):
        cohorts = [sample(log_scores(d, 10.0), 5, np.random.default_rng(draw)).tolist() for d in (plain, private)]
        assert cohorts[0] == cohorts[1]


@pytest.mark.parametrize("value", [0.0, 1e-7, 0.3, 1.0, 7.7, 1e12, 5e22])
def test_reported_numbers_keep_twenty_bits(value):
    kept = rounded(value)
    assert abs(kept - value) <= 2.0**-20 * max(1.0, value)
    assert (kept * 2**20).is_integer()
    assert kept == 0 or len(bin(int(kept * 2**20)).strip("0b")) <= 20
    assert rounded(kept) == kept


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_not_reported(value):
    with pytest.raises(MatchingError, match="does not fit"):
        rounded(value)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_number_no_divergence_can_be_is_not_accepted(value):
    client, server = make("client").client(), make("client").server(pair(8)[1])
    frame = unpack(client.first(server.ask(), pair(8)[0]))
    lie = replace(frame, payload=struct.pack("<d", value)).pack()
    with pytest.raises(MatchingError, match="finite and not negative"):
        server.receive(lie)


def test_tenseal_is_not_imported_until_it_is_used():
    code = "import sys, fedprof.matching; assert not {'tenseal', 'torch', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_tenseal_only_encrypted_mean_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal", None)
    for name in LIGHT:
        match(make(name), *pair(4))
    with pytest.raises(MissingExtraError, match=r"encrypted-mean.*fedprof\[private\]"):
        make("encrypted-mean").server(pair(4)[1])
