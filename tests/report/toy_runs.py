"""Small runs whose every figure is known."""

from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store

KINDS = ("normal", "normal", "pixel", "irrelevant", "normal", "blur")


def make_run(
    path,
    algorithm="fedavg",
    mode="full",
    seed=0,
    accuracies=(0.1, 0.5, 0.8, 0.9),
    goal=0.8,
    parameters=None,
    scored=False,
    settings=None,
):
    """Write a small run whose every figure is known: round r lasts 60 s and costs 360 J."""
    plan = {
        "algorithm": algorithm,
        "seed": seed,
        "name": "toy",
        "title": "A toy",
        "federation": {"goal": goal, "fraction": 0.5},
        "training": {"epochs": 2, "batch": 8, "rate": 0.1},
        "model": {"name": "mlp"},
        **(settings or {}),
        "algorithms": {algorithm: parameters or {}},
    }
    clients = [ClientRow(k, f"client-{k}", kind, 10 + k, 1.0, 1.0) for k, kind in enumerate(KINDS)]
    store = Store.create(
        path, {"plan": plan, "aggregation": mode, "engine": "torch", "versions": {"numpy": "2"}}, clients
    )
    best = 0.0
    for number, accuracy in enumerate(accuracies):
        best = max(best, accuracy)
        row = RoundRow(number, accuracy, 0.5, best, 0.1, 60.0, 60.0 * number, 360.0, 360.0 * number, 3, 3)
        store.record(row, [_part(number, k, scored) for k in range(len(KINDS))], {})
    store.close()
    return path


def _part(number, client, scored):
    selected = int(number > 0 and (client + number) % 2 == 0)
    costs = {
        "download_s": 1.0,
        "training_s": 4.0,
        "upload_s": 2.0,
        "download_j": 0.5,
        "training_j": 3.0,
        "upload_j": 1.0,
    }
    values = {"score": 0.1 * client / 1.5, "divergence": 0.1 + client} if scored else {}
    return ParticipationRow(number, client, selected, selected, **values, **(costs if selected else {}))
