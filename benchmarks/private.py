"""What matching costs: milliseconds and bytes of every scheme against q, beside a plain match and a client's training.

    python benchmarks/private.py [--quick] [--round-seconds S] [--out FOLDER]

prints tables and writes them to a dated file under benchmarks/results/. Times are CPU time (all threads), the least of
several repetitions. The last table is the experiment on the paper's first variant, the logarithm of a ciphertext.
"""

from __future__ import annotations

import argparse
import math
import time
from datetime import date
from pathlib import Path

import numpy as np

import machine
from fedprof.core.profile import Profile
from fedprof.matching import MATCHINGS, make

LENGTHS = (64, 256, 1024, 4096)
REPETITIONS = {"plain": 50, "client": 50, "masked": 15, "encrypted-mean": 3}


def main() -> None:
    options = arguments()
    rounds = {"round": options.round_seconds} if options.round_seconds else local_training()
    lengths = LENGTHS[:1] if options.quick else LENGTHS
    tables = [heading(rounds), matching_table(lengths, rounds), cycles_table()]
    tables.append(logarithm_experiment((7,) if options.quick else (7, 15)))
    text = "\n\n".join(tables) + "\n"
    print(text)
    machine.write("private", text, options.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one length, one degree")
    parser.add_argument("--round-seconds", type=float, help="CPU seconds of one client's round (default: measured)")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    return parser.parse_args()


def heading(rounds: dict[str, float]) -> str:
    trained = ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in rounds.items())
    return (
        f"# Private matching, {date.today().isoformat()}\n\n{machine.described('numpy', 'tenseal')} "
        f"CPU time. What one client trains in a round, by PyTorch: {trained}."
    )


def matching_table(lengths: tuple[int, ...], rounds: dict[str, float]) -> str:
    rows = []
    for q in lengths:
        plain = sum(measure("plain", q)[:3])
        rows += [matching_row(name, q, {"plain": plain} | rounds) for name in MATCHINGS]
    ratios = " | ".join(f"/ {name}" for name in ["plain", *rounds])
    return table(f"scheme | q | encrypt ms | evaluate ms | decrypt ms | bytes up | bytes down | {ratios}", rows)


def matching_row(name: str, q: int, compared: dict[str, float]) -> str:
    first, server, second, up, down = measure(name, q)
    times = " | ".join(f"{1e3 * seconds:.3g}" for seconds in (first, server, second))
    ratios = " | ".join(f"{(first + server + second) / seconds:.2g}" for seconds in compared.values())
    return f"{name} | {q} | {times} | {up:,} | {down:,} | {ratios}"


def measure(name: str, q: int) -> tuple[float, float, float, int, int]:
    """CPU seconds of the client's first step, the server's steps and the client's second; bytes up and down."""
    runs = [one_match(name, q, repetition) for repetition in range(REPETITIONS[name])]
    first, server, second = (min(run[i] for run in runs) for i in range(3))
    return first, server, second, runs[-1][3], runs[-1][4]


def one_match(name: str, q: int, seed: int) -> tuple[float, float, float, int, int]:
    matching, (profile, baseline) = make(name), profiles(q, seed)
    client, server = matching.client(), matching.server(baseline)
    question, asking = timed(server.ask)
    reply, first = timed(client.first, question, profile)
    answer, receiving = timed(server.receive, reply)
    if matching.exchanges == 1:
        return first, asking + receiving, 0.0, len(reply), len(question)
    report, second = timed(client.second, answer)
    _, finishing = timed(server.finish, report)
    bytes_up, bytes_down = len(reply) + len(report), len(question) + len(answer)
    return first, asking + receiving + finishing, second, bytes_up, bytes_down


def timed(work, *arguments_):
    begun = time.process_time()
    return work(*arguments_), time.process_time() - begun


def profiles(q: int, seed: int) -> list[Profile]:
    rng = np.random.default_rng(seed)
    return [Profile(rng.normal(size=q), rng.random(q) + 0.1, 100, 0) for _ in range(2)]


def cycles_table() -> str:
    """A client's cycles: what the constants CYCLES in matching/ are rounded from."""
    hertz = clock()
    rows = []
    for name, lengths in (("client", (64, 4096)), ("masked", (4096, 8192)), ("encrypted-mean", (4000, 8000))):
        cycles = [hertz * sum(measure(name, q)[0:3:2]) for q in lengths]
        rows.append(f"{name} | {lengths[0]} | {cycles[0]:.3g} | {lengths[1]} | {cycles[1]:.3g}")
    return f"Client's cycles at {hertz / 1e9:.2f} GHz:\n\n" + table("scheme | q | cycles | q | cycles", rows)


def logarithm_experiment(degrees: tuple[int, ...]) -> str:
    """The paper's first variant (eq:FHE_KL) needs log of an encrypted variance: a Chebyshev polynomial of it."""
    spans = (1e1, 1e2, 1e4, 1e6, 1e12)
    need = [
        f"{span:.0e} | {degree_needed(span)} | {error_of_degree(span, 7):.1e} | {error_of_degree(span, 15):.1e}"
        for span in spans
    ]
    rows = [logarithm_row(degree, span) for degree in degrees for span in spans[:2]]
    exact = (
        "Logarithm on ciphertext. Error of the Chebyshev approximation of (log x) / 2 where variances span a factor, "
        "and the degree that brings it below 1e-5 (exact arithmetic):"
    )
    measured = (
        "Evaluated in TenSEAL (CKKS, degree 16384, moduli 60 + 7 x 40 + 60 = 400 bits; 438 are allowed for 128-bit "
        "security), q = 64, the logarithm alone:"
    )
    needed = table("span | degree for 1e-5 | error, degree 7 | error, degree 15", need)
    done = table("degree | span | encrypt ms | evaluate ms | decrypt ms | MiB of keys | largest error", rows)
    return f"{exact}\n\n{needed}\n\n{measured}\n\n{done}"


def chebyshev(span: float, degree: int) -> np.polynomial.Chebyshev:
    return np.polynomial.Chebyshev.interpolate(lambda x: np.log(x) / 2, degree, domain=[1 / span, 1.0])


def error_of_degree(span: float, degree: int) -> float:
    points = np.geomspace(1 / span, 1.0, 20_001)
    return float(np.abs(chebyshev(span, degree)(points) - np.log(points) / 2).max())


def degree_needed(span: float, tolerance: float = 1e-5) -> str:
    """By doubling, then bisection; the error falls as ((sqrt(span) - 1) / (sqrt(span) + 1)) ** degree."""
    low, high = 0, 8
    while error_of_degree(span, high) > tolerance:
        low, high = high, 2 * high
        if high > 4096:
            rate = math.log((math.sqrt(span) + 1) / (math.sqrt(span) - 1))
            return f"about {math.log(1 / tolerance) / rate:.0e}"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error_of_degree(span, middle) > tolerance else (low, middle)
    return str(high)


def logarithm_row(degree: int, span: float) -> str:
    import tenseal as ts

    context = ts.context(ts.SCHEME_TYPE.CKKS, 16384, coeff_mod_bit_sizes=[60, *[40] * 7, 60])
    context.global_scale = 2.0**40
    keys = context.serialize(save_secret_key=False, save_galois_keys=False)
    series = chebyshev(span, degree)
    points = np.geomspace(1 / span, 1.0, 64)
    scaled = (2 * points - series.domain.sum()) / np.ptp(series.domain)
    powers = np.polynomial.chebyshev.cheb2poly(series.coef)
    vector, encrypt = timed(ts.ckks_vector, context, scaled.tolist())
    result, evaluate = timed(vector.polyval, powers.tolist())
    values, decrypt = timed(result.decrypt)
    error = np.abs(np.array(values) - np.log(points) / 2).max()
    times = " | ".join(f"{1e3 * seconds:.3g}" for seconds in (encrypt, evaluate, decrypt))
    return f"{degree} | {span:.0e} | {times} | {len(keys) / 2**20:.1f} | {error:.1e}"


def local_training() -> dict[str, float]:
    """CPU seconds that one client trains in a round, on one thread: an MLP on digits, LeNet-5 on EMNIST's sizes."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    convolutions = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    dense = [nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    lenet = nn.Sequential(*convolutions, *dense)
    return {
        "digits": min(training_seconds(mlp, torch.rand(35, 64), 3, 8) for _ in range(20)),
        "emnist": min(training_seconds(lenet, torch.rand(480, 1, 28, 28), 5, 32) for _ in range(3)),
    }


def training_seconds(net, inputs, epochs: int, batch: int) -> float:
    import torch

    labels = torch.randint(10, (len(inputs),))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.005)
    begun = time.process_time()
    for _ in range(epochs):
        for part, target in zip(inputs.split(batch), labels.split(batch), strict=True):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(part), target).backward()
            optimiser.step()
    return time.process_time() - begun


def clock() -> float:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((1e6 * float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")), 2.5e9)


def table(columns: str, rows: list[str]) -> str:
    return machine.table(columns.split(" | "), [row.split(" | ") for row in rows])


if __name__ == "__main__":
    main()
