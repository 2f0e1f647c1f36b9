"""The page docs/privacy.md: every sentence says what it rests on; whether that bears it out is for readers to judge."""

import re
from pathlib import Path

import numpy as np
import pytest
from profile_pairs import pair

from fedprof.core.divergence import divergence
from fedprof.core.profile import Moments, Profile
from fedprof.matching import make
from fedprof.matching.base import rounded
from fedprof.matching.frames import unpack

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
BODY, REFERENCES = PAGE.split("## References")
HOME = Path(__file__).parents[1]
TESTS = "\n".join(path.read_text() for path in (*HOME.glob("matching/test_*.py"), *HOME.glob("flower/test_*.py")))


def sentences():
    """Of every paragraph, bullet and table row; code is run by ``tests/test_docs.py``."""
    text = re.sub(r"```.*?```", "", BODY, flags=re.DOTALL)
    for line in re.sub(r"\n(?![\n#|-])", " ", text.strip()).splitlines():
        if not line or line.startswith(("#", "|---", "| `matching=")):
            continue
        yield from [line] if line.startswith("|") else re.split(r"(?<=[.)])\s+(?=[A-Z2])", bare(line))


def bare(line):
    return re.sub(r"^\s*-?\s*(\*\*[^*]*\*\*)?\s*", "", line)


@pytest.mark.parametrize("sentence", list(sentences()))
def test_every_sentence_names_a_test_or_a_source_or_says_unproven(sentence):
    assert re.search(r"`test_\w+`|\[\d+\]|unproven", sentence), sentence


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", BODY))))
def test_the_tests_it_names_exist(name):
    assert f"def {name}(" in TESTS


def test_its_references_exist_and_are_all_used():
    listed = re.findall(r"^(\d+)\.", REFERENCES, re.MULTILINE)
    assert set(re.findall(r"\[(\d+)\]", BODY)) == set(listed)
    assert listed == [str(i + 1) for i in range(len(listed))]


@pytest.mark.parametrize("samples", [1, 50])
def test_the_mean_input_follows_from_a_first_layer_profile(samples):
    rng = np.random.default_rng(0)
    weights, bias, inputs = rng.normal(size=(20, 12)), rng.normal(size=20), rng.random((samples, 12))
    seen = Moments(20)
    seen.update(inputs @ weights.T + bias)
    guess = np.linalg.lstsq(weights, seen.to_profile().mean - bias, rcond=None)[0]
    assert guess == pytest.approx(inputs.mean(axis=0), abs=1e-5)


def test_client_costs_a_thousandth_of_masked_in_bytes():
    client, masked = make("client").costs(64), make("masked").costs(64)
    assert 1000 * (client.bytes_up + client.bytes_down) < masked.bytes_up + masked.bytes_down


@pytest.mark.parametrize("q", [2, 4096])
def test_the_client_scheme_sends_one_number(q):
    profile, baseline = pair(q)
    reply = unpack(make("client").client().first(make("client").server(baseline).ask(), profile))
    assert len(reply.payload) == 8
    assert np.frombuffer(reply.payload, "<f8")[0] == rounded(divergence(profile, baseline))


def test_every_client_of_the_client_scheme_gets_the_baseline():
    _, baseline = pair(16)
    question = make("client").server(baseline).ask()
    assert Profile.from_bytes(question[-4 - len(baseline.to_bytes()) : -4]) == baseline
