"""The public data sets: what they are, where they live, and how to tell that a file is the right one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

GAS_INPUTS = ("AT", "AP", "AH", "AFDP", "GTEP", "TIT", "TAT", "TEY", "CDP")
"""Ambient temperature, pressure and humidity; filter pressure drop; exhaust pressure; turbine inlet and after
temperatures; energy yield; compressor discharge pressure."""


@dataclass(frozen=True)
class File:
    """A file of a source as it stands in the data folder."""

    path: str
    """Relative to the data folder."""
    checksum: str
    """``algorithm:hexadecimal digest``."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Download:
    """Something to fetch: one file, or an archive with several."""

    urls: tuple[str, ...]
    """Tried in turn: data sets move, and an old address may outlive a new one."""
    files: tuple[File, ...]
    """What it puts into the data folder; in an archive they are found by their names."""
    archive: str | None = None
    """``"zip"``, ``"tar"``, or nothing for a plain file."""
    checksum: str | None = None
    """Of the archive itself; without one the files inside are what is checked."""
    size: int | None = None
    """Bytes, if known, to show progress before the server has told."""


@dataclass(frozen=True)
class Source:
    """A public data set."""

    name: str
    title: str
    licence: str
    citation: str
    shape: tuple[int, ...]
    """Of one input."""
    samples: int
    """Rows in all, training and test."""
    classes: int
    """Number of classes; 0 for regression."""
    downloads: tuple[Download, ...] = ()
    """Nothing for a source that comes with the package."""
    features: tuple[str, ...] | None = None
    """Names of a table's columns."""

    @property
    def files(self) -> tuple[File, ...]:
        """Every file the source consists of."""
        return tuple(file for download in self.downloads for file in download.files)

    @property
    def size(self) -> int | None:
        """Bytes to download, if known."""
        sizes = [download.size for download in self.downloads]
        return sum(size for size in sizes if size) if all(sizes) else None


def data_home(override: Path | str | None = None) -> Path:
    """The data folder: the one given, else ``FEDPROF_DATA``, else a folder in the user's cache."""
    chosen = override or os.environ.get("FEDPROF_DATA") or platformdirs.user_cache_path("fedprof") / "data"
    return Path(chosen).expanduser()


def _mnist(name: str, sha256: str, size: int) -> Download:
    urls = (
        f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
        f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
        f"http://yann.lecun.com/exdb/mnist/{name}",
    )
    return Download(urls, (File(f"mnist/{name}", f"sha256:{sha256}"),), size=size)


def _files(stem: str, checksums: Mapping[str, str]) -> tuple[File, ...]:
    return tuple(File(stem + name, f"sha256:{digest}") for name, digest in checksums.items())


_DIGITS = Source(
    name="digits",
    title="Handwritten digits of scikit-learn (8 x 8)",
    licence="CC BY 4.0",
    citation="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits. UCI, 1998. doi:10.24432/C50P49",
    shape=(1, 8, 8),
    samples=1_797,
    classes=10,
)

_MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits",
    licence="none stated",
    citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to document recognition. "
    "Proceedings of the IEEE 86(11), 1998",
    shape=(1, 28, 28),
    samples=70_000,
    classes=10,
    downloads=(
        _mnist(
            "train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422
        ),
        _mnist(
            "train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881
        ),
        _mnist(
            "t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877
        ),
        _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
    ),
)

_EMNIST = Source(
    name="emnist",
    title="EMNIST, the digits",
    licence="none stated",
    citation="G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST: an extension of MNIST to handwritten letters. "
    "arXiv:1702.05373, 2017",
    shape=(1, 28, 28),
    samples=280_000,
    classes=10,
    downloads=(
        Download(
            urls=(
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
            ),
            archive="zip",
            checksum="md5:58c8d27c78d21e728a6bc7b3cc06412e",
            size=561_753_746,
            files=_files(
                "emnist/emnist-digits-",
                {
                    "train-images-idx3-ubyte.gz": "f7c95004d14d81af89522e67d8f0c781dfb3bd544181c81bfe1eb6b41c35b726",
                    "train-labels-idx1-ubyte.gz": "6638a6ff5fe2eefd9cca2471995b46c82986b8e4b2a70d2f5ce8e05d7edb319e",
                    "test-images-idx3-ubyte.gz": "20ebe43509264f7639d37c835a3f0b009e90b29e00a099a03101abe1644a3f63",
                    "test-labels-idx1-ubyte.gz": "bad1834c45d5988e270b99d43b13edc3fd898f658ffbc2caf2846ef27f7b05b0",
                },
            ),
        ),
    ),
)

_GAS_TURBINE = Source(
    name="gasturbine",
    title="Gas turbine CO and NOx emissions (UCI 551)",
    licence="CC BY 4.0",
    citation="H. Kaya, P. Tüfekci, E. Uzun: Predicting CO and NOx emissions from gas turbines. Turkish Journal of "
    "Electrical Engineering and Computer Sciences 27(6), 2019. doi:10.24432/C5WC95",
    shape=(9,),
    samples=36_733,
    classes=0,
    features=GAS_INPUTS,
    downloads=(
        Download(
            urls=(
                "https://archive.ics.uci.edu/static/public/551/gas+turbine+co+and+nox+emission+data+set.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00551/pp_gas_emission.zip",
            ),
            archive="zip",
            files=_files(
                "gas_turbine/",
                {
                    "gt_2011.csv": "d87ceef9aa59533cc7d924d10de241b1b06ecd11f9b26bab59191ea0f8a76b9a",
                    "gt_2012.csv": "be54b9d0e1a7de40c55d32fa489e75de892b000c066b5a09f09a19124ee29100",
                    "gt_2013.csv": "13c437bb440ec2045bd12057e6654c41dd4107a661eac16ba2e878e897a08f9e",
                    "gt_2014.csv": "c2a03c92c9c3207aad0c6be7de8d9b5b4bfa4720ad0efb2c1f21b6cec4d3f3fa",
                    "gt_2015.csv": "9b08f35fde0d4b138232a605db4093c2b8bf9d6757e6f1fbd9534ad616c13591",
                },
            ),
        ),
    ),
)

_CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10 photographs",
    licence="none stated",
    citation="A. Krizhevsky: Learning multiple layers of features from tiny images. Technical report, 2009",
    shape=(3, 32, 32),
    samples=60_000,
    classes=10,
    downloads=(
        Download(
            urls=(
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "http://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            ),
            archive="tar",
            checksum="md5:c58f30108f718f92721af3b95e74349a",
            size=170_498_071,
            files=_files(
                "cifar10/cifar-10-batches-py/",
                {
                    "data_batch_1": "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
                    "data_batch_2": "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
                    "data_batch_3": "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
                    "data_batch_4": "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
                    "data_batch_5": "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
                    "test_batch": "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
                },
            ),
        ),
    ),
)

SOURCES: Mapping[str, Source] = {source.name: source for source in (_DIGITS, _GAS_TURBINE, _EMNIST, _CIFAR10, _MNIST)}
"""Every source by name."""
