"""The log of changes: what goes in comes out, and its columns are those of numpy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kfast
from kfast.kernels.change_log import CHANGE, ChangeLog
from kfast.state import changes

pytestmark = pytest.mark.kernels

KERNELS = Path(kfast.__file__).with_name("kernels")
PXD = (KERNELS / "change_log.pxd").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("prefix", "codes"),
    [("FIELD_", changes.Field), ("ELECT_", changes.Election), ("CHANGE_", changes.ChangeKind)],
)
def test_codes_are_the_same_in_python_and_in_c(prefix, codes):
    """Every name, with its number."""
    found = {n: int(v) for n, v in re.findall(rf"^    {prefix}([A-Z_]+) = (\d+)$", PXD, re.M)}
    assert found == {code.name: int(code) for code in codes}


def test_fields_come_out_as_they_went_in():
    """One by one or many at once; an empty list is not the same as none."""
    log = ChangeLog()
    log.append(3, isr=[1, 2], leader=-1, elr=[], directories=[5, 0])
    log.append(4, recovery=1, last_known=-2, replicas=[7], removing=[7], adding=[8])
    log.extend(log.changes, log.lists)
    assert len(log) == 4
    for first in (0, 2):
        assert log.fields_of(first) == {
            "isr": (1, 2), "elr": (), "directories": (5, 0), "leader": -1,
        }
        assert log.fields_of(first + 1) == {
            "replicas": (7,), "removing": (7,), "adding": (8,), "recovery": 1, "last_known": -2,
        }
    assert log.changes["row"].tolist() == [3, 4, 3, 4]
    log.clear()
    assert (len(log), log.changes.size, log.lists.size) == (0, 0, 0)


def test_lists_that_are_not_there_are_refused():
    """Of many changes: those that point behind the lists. Of one: those of over 64 entries."""
    log = ChangeLog()
    change = np.zeros(1, CHANGE)
    change["n_isr"] = 2
    with pytest.raises(ValueError, match="lists of change 0"):
        log.extend(change, np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="65 entries"):
        log.append(0, isr=range(65))
    with pytest.raises(IndexError, match="outside"):
        log.fields_of(0)
