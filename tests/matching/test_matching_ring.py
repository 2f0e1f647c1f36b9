import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedprof.matching import ring

SEED = b"s" * 32


def residues(integers):
    return np.array([[i % p for i in integers] for p in ring.PRIMES], dtype=np.uint64)


def test_the_primes_are_what_the_transform_needs():
    for p in ring.PRIMES:
        assert p < 2**31
        assert p % (2 * ring.N) == 1
        assert all(p % d for d in range(3, math.isqrt(p) + 1, 2))
    assert len(set(ring.PRIMES)) == len(ring.PRIMES)


def test_the_modulus_is_within_the_guidelines_of_2024_for_128_bits():
    assert ring.N == 8192
    assert ring.Q.bit_length() <= 214


def test_seal_accepts_the_parameters_at_128_bits_and_refuses_one_prime_more():
    seal = pytest.importorskip("tenseal.sealapi")
    assert seal_context(seal, ring.PRIMES, seal.SEC_LEVEL_TYPE.TC128).parameters_set()
    larger = seal_context(seal, (*ring.PRIMES, 65537), seal.SEC_LEVEL_TYPE.TC128)
    assert not larger.parameters_set()
    assert "secur" in larger.parameters_error_message()


def test_this_arithmetic_decrypts_what_seal_encrypts():
    seal = pytest.importorskip("tenseal.sealapi")
    context = seal_context(
        seal, (*ring.PRIMES, 65537), seal.SEC_LEVEL_TYPE.NONE
    )  # SEAL keeps the last for key switching
    key = seal.KeyGenerator(context).secret_key()
    plain, ciphertext = seal.Plaintext(), seal.Ciphertext()
    seal.CKKSEncoder(context).encode(12.5, 2.0**60, plain)
    seal.Encryptor(context, key).encrypt_symmetric(plain, ciphertext)
    c0, c1 = (values_of(ciphertext, start) for start in (0, len(ring.PRIMES) * ring.N))
    decrypted = ring.plus(c0, ring.times(c1, values_of(key.data(), 0)))
    assert ring.centred(ring.constant(decrypted)) / 2**60 == pytest.approx(12.5, abs=2.0**-50)


def seal_context(seal, primes, security):
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(ring.N)
    parameters.set_coeff_modulus([seal.Modulus(p) for p in primes])
    return seal.SEALContext(parameters, False, security)


def values_of(polynomial, start):
    count = len(ring.PRIMES) * ring.N
    stored = polynomial.dyn_array()
    values = np.fromiter((stored[i] for i in range(start, start + count)), dtype=np.uint64, count=count)
    return values.reshape(len(ring.PRIMES), ring.N)


def test_a_transformed_polynomial_holds_its_values_at_all_2n_th_roots_of_minus_one():
    x = np.zeros((len(ring.PRIMES), ring.N), dtype=np.uint64)
    x[:, 1] = 1
    for roots, p in zip(ring.transform(x), ring.PRIMES, strict=True):
        assert len(set(roots.tolist())) == ring.N
        assert all(pow(int(root), ring.N, p) == p - 1 for root in roots[:: ring.N // 64])


def test_transforming_is_evaluating():
    rng = random.Random(1)
    coefficients = residues([rng.randrange(ring.Q) for _ in range(50)])
    p = ring.PRIMES[0]
    x = np.zeros((len(ring.PRIMES), ring.N), dtype=np.uint64)
    x[:, 1] = 1
    roots, values = ring.transform(x)[0], ring.polynomial(coefficients)[0]
    for j in (0, 1, 4095, 8191):
        powers = (int(c) * pow(int(roots[j]), i, p) for i, c in enumerate(coefficients[0]))
        assert sum(powers) % p == values[j]


@pytest.mark.parametrize("length", [1, 2, 100, ring.N])
def test_the_constant_coefficient_of_a_product_is_the_inner_product(length):
    rng = random.Random(length)
    a, b = ([rng.randrange(-(2**100), 2**100) for _ in range(length)] for _ in range(2))
    product = ring.times(ring.polynomial(residues(a)), ring.reversed_polynomial(residues(b)))
    expected = sum(x * y for x, y in zip(a, b, strict=True))
    assert ring.centred(ring.constant(product)) == expected
    assert ring.centred(ring.inner(residues(a), residues(b))) == expected


def test_products_wrap_with_a_change_of_sign():
    x = [0] * ring.N
    x[ring.N // 2] = 1
    squared = ring.times(ring.polynomial(residues(x)), ring.polynomial(residues(x)))
    assert ring.centred(ring.constant(squared)) == -1


@given(st.integers(-ring.Q // 2 + 1, ring.Q // 2 - 1))
def test_centring_undoes_the_modulus(number):
    assert ring.centred(number % ring.Q) == number


@given(st.lists(st.floats(-(2.0**80), 2.0**80), min_size=1, max_size=20), st.integers(0, 90))
def test_fixed_point_is_exact_rounding(values, bits):
    expected = [round(math.ldexp(v, bits)) if abs(v) * 2**bits < 2**52 else int(math.ldexp(v, bits)) for v in values]
    assert (ring.fixed_point(values, bits) == residues(expected)).all()


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_addition_and_subtraction_are_inverse(seed):
    a, b = (ring.expand(seed.to_bytes(32, "little"), label) for label in "ab")
    assert (ring.minus(ring.plus(a, b), b) == a).all()
    assert (ring.plus(a, b).max(axis=1) < ring.PRIMES).all()


def test_public_polynomials_follow_from_seed_and_label_and_are_uniform():
    a = ring.expand(SEED, "1")
    assert (a == ring.expand(SEED, "1")).all()
    assert (a != ring.expand(SEED, "2")).mean() > 0.999
    assert (a != ring.expand(b"t" * 32, "1")).mean() > 0.999
    for row, p in zip(a, ring.PRIMES, strict=True):
        counts = np.histogram(row, bins=16, range=(0, p))[0]
        assert ((counts - 512) ** 2 / 512).sum() < 60  # chi-square, 15 degrees of freedom: exceeded once in 10**6


def test_secrets_are_ternary_and_balanced():
    s = ring.secret(SEED)
    unit = np.zeros((len(ring.PRIMES), ring.N), dtype=np.uint64)
    unit[:, 0] = 1
    assert (s == ring.secret(SEED)).all()
    assert (s != ring.secret(b"t" * 32)).mean() > 0.999
    coefficients = [coefficient(s, i) for i in range(0, ring.N, 64)]
    assert set(coefficients) == {-1, 0, 1}
    assert all(abs(coefficients.count(v) - 128 / 3) < 32 for v in (-1, 0, 1))  # six standard deviations


def coefficient(values, at):
    """One coefficient of a transformed polynomial: the constant of its product with -X^(N - at)."""
    shift = np.zeros((len(ring.PRIMES), ring.N), dtype=np.uint64)
    shift[:, at] = 1
    return ring.centred(ring.constant(ring.times(values, ring.reversed_polynomial(shift))))


def test_errors_have_the_stated_spread_and_are_fresh():
    draws = ring.error_coefficients(200_000)
    assert abs(draws).max() <= ring.ERROR_BITS
    assert draws.mean() == pytest.approx(0, abs=0.05)
    assert draws.var() == pytest.approx(ring.ERROR_BITS / 2, rel=0.02)
    assert (draws[:8192] != ring.error_coefficients(8192)).mean() > 0.8


def test_polynomials_survive_serialisation_and_unreduced_ones_are_refused():
    a = ring.expand(SEED, "1")
    data = ring.to_bytes(a)
    assert len(data) == ring.POLYNOMIAL_BYTES
    assert (ring.from_bytes(data) == a).all()
    with pytest.raises(ValueError, match="not reduced"):
        ring.from_bytes(b"\xff" * ring.POLYNOMIAL_BYTES)


def test_a_scalar_fits_its_bytes():
    assert ring.Q < 2 ** (8 * ring.SCALAR_BYTES)
