import numpy as np

from fedprof.algorithms.aggregation import ServerAdam
from fedprof.reproduction import biased
from fedprof.reproduction.biased import SIZES
from fedprof.reproduction.studies import COMBINED
from fedprof.tasks.load import plan


def test_the_combination_selects_as_fedprof_and_combines_as_fedadam():
    both = plan("gasturbine", algorithm=COMBINED).server
    assert both.profiles
    assert both.combines == ServerAdam(0.03)


def test_an_algorithm_named_by_import_path_takes_its_parameters():
    assert plan("gasturbine", algorithm=COMBINED, overrides=["server_rate=0.5"]).server.server_rate == 0.5


def test_whatever_the_server_holds_the_clients_hold_the_same():
    whole, *others = [getattr(biased, name)() for name in SIZES]
    for raw, size in zip([whole, *others], SIZES.values(), strict=True):
        assert len(raw.test_y) == size
        np.testing.assert_array_equal(raw.train_x, whole.train_x)
    assert set(biased.two_classes().test_y.tolist()) == {0, 1}
