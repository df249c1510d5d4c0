"""What a run of `python -m tests.fuzz` found, read again."""

import sys

import pytest

from tests.fuzz.__main__ import FOUND
from tests.fuzz.guided import is_available, run_guided
from tests.fuzz.limits import problem
from tests.fuzz.readers import every_reader, make_input
from tests.support.long_tests import only_whole

INPUTS = sorted(FOUND.glob("*/*"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture(scope="module")
def readers():
    return every_reader()


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_is_mended(path, readers):
    reader = readers[path.parent.name.replace("_", " ")]
    assert problem(reader.read, path.read_bytes()) is None


@pytest.mark.slow
def test_changed_inputs_are_read_or_refused(readers):
    """Some inputs for every reader; the command reads as many as one likes."""
    faults = {
        f"{name}, input {number}: {fault}"
        for name, reader in readers.items() for number in range(50)
        if (fault := problem(reader.read, make_input(name, reader, 1, number)))
    }
    assert not faults


@pytest.mark.slow
@only_whole
@pytest.mark.skipif(not is_available(), reason="atheris is not installed: it has no wheel for here")
def test_guided_inputs_reach_more_than_the_samples(readers, tmp_path):
    name = "json and text"
    _, of_samples, _ = run_guided(name, readers[name], tmp_path / "samples", 1, 1, 60)
    n, reached, faults = run_guided(name, readers[name], tmp_path / "guided", 1, 500, 60)
    assert not faults
    assert n >= 500
    assert reached > of_samples > 0
