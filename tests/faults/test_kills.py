"""kill -9 at random moments of what writes: the old file, the new one, or none."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import count
from random import Random

import pytest

from tests.faults.writers import KILLED, WRITERS, Runner, is_old, left_behind, put_old
from tests.support.long_tests import WHOLE


def kill_often(tmp_path, names, n_kills, seed):
    """Kill runs of some writers until so many were met; what was there afterwards, by kind.

    How long a run takes depends on what else the machine does: the next one of that writer is
    killed within the time of the last one that ended by itself.
    """
    draw, found = Random(seed), Counter()
    with Runner() as runner:
        whole = {}
        for name in names:
            writer = WRITERS[name]
            path = tmp_path / f"whole{writer.ending}"
            code, whole[name] = runner.run(writer.command(path))
            assert code == 0, name
            writer.read(path)
        for number in count():
            if found["killed"] == n_kills:
                break
            name = names[number % len(names)]
            writer = WRITERS[name]
            folder = tmp_path / str(number)
            folder.mkdir()
            path = folder / f"x{writer.ending}"
            if had_old := draw.random() < 0.7:
                put_old(writer, path)
            code, seconds = runner.run(writer.command(path), draw.uniform(0, 1.1 * whole[name]))
            assert code in (0, KILLED), name
            found["killed" if code else "ended before"] += 1
            whole[name] = whole[name] if code else seconds
            if not path.exists():
                assert code == KILLED
                assert not had_old or not writer.output, f"{name}: the old file is gone"
                found["none"] += 1
            elif had_old and is_old(writer, path):
                assert code == KILLED
                found["old"] += 1
            else:
                writer.read(path)
                found["new"] += 1
            found["hidden parts left"] += len(left_behind(path))
            assert all(part.name.startswith(".") for part in left_behind(path))
            assert runner.run(writer.command(path))[0] == 0, f"{name} cannot write any more"
            writer.read(path)
            shutil.rmtree(folder)
    print(dict(found))
    return found


def test_a_few_kills_leave_whole_files(tmp_path):
    assert kill_often(tmp_path, ["state", "save", "fail"], 6, 1)["killed"] == 6


@pytest.mark.slow
def test_many_kills_leave_whole_files(tmp_path):
    """A hundred, or the fifteen that CI has the time for."""
    n = 100 if WHOLE else 15
    found = kill_often(tmp_path, list(WRITERS), n, 2)
    assert found["killed"] == n
    assert found["old"] > n / 10
