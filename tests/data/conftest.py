"""Real data for the tests that state promises about it."""

import os
from pathlib import Path

import pytest

from fedprof.data.sources import SOURCES, Raw, load, verify


@pytest.fixture(scope="session")
def real():
    """Load a real source, or skip."""
    loaded: dict[str, Raw] = {}

    def get(name: str) -> Raw:
        if name not in loaded:
            folder = os.environ.get("FEDPROF_DATA")
            if SOURCES[name].downloads and not folder:
                pytest.skip(f"FEDPROF_DATA does not say where {name} is")
            if not all(finding.usable for finding in verify(SOURCES[name], Path(folder or "."))):
                pytest.skip(f"{name} is not in {folder}: fedprof data fetch {name}")
            loaded[name] = load(name, Path(folder or "."))
        return loaded[name]

    return get
