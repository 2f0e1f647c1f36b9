import pytest
from chromium import Chromium, find_chromium
from toy_runs import make_run


@pytest.fixture
def run_file(tmp_path):
    """Make small runs by name."""

    def make(name="run.sqlite", **options):
        return make_run(tmp_path / name, **options)

    return make


@pytest.fixture(scope="session")
def browser():
    path = find_chromium()
    if path is None:
        pytest.skip("no chromium here (looked for chromium, chromium-browser, google-chrome)")
    with Chromium(path) as found:
        yield found
