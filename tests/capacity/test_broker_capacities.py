"""Capacities of brokers: defaults, absent brokers, directories."""

from __future__ import annotations

import json

import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from tests.capacity.test_partition_loads import PAY

FILE = {"brokerCapacities": [
    {"brokerId": "-1", "capacity": {"DISK": {"/a": "3", "/b": "4"}, "CPU": {"num.cores": "16"},
                                    "NW_IN": "10", "NW_OUT": "20"}},
    {"brokerId": "2", "capacity": {"DISK": "5", "CPU": "100", "NW_IN": "30", "NW_OUT": "40"}},
    {"brokerId": "77", "capacity": {"DISK": "5", "CPU": "100", "NW_IN": "30", "NW_OUT": "40"}},
]}
MB, KB = 1 << 20, 1 << 10


def capacity(text):
    data = json.dumps(text) if isinstance(text, dict) else text
    return kfast.broker_capacity(PAY, kfast.read_capacity(("x", data.encode())))


def test_a_broker_without_a_row_has_the_default():
    """Brokers 1, 2, 5 and 9; what a row does not say is the default's too."""
    found = capacity(FILE)
    assert found.nw_in.tolist() == [10 * KB, 30 * KB, 10 * KB, 10 * KB]
    assert found.disk_bytes.tolist() == [7 * MB, 5 * MB, 7 * MB, 7 * MB]
    assert found.cpu_microcores.tolist() == [16_000_000] * 4
    assert found.disk_write.tolist() == [-1] * 4
    assert found.log_dirs == ({"/a": 3 * MB, "/b": 4 * MB}, {}, *[{"/a": 3 * MB, "/b": 4 * MB}] * 2)
    assert found.price_class == (None,) * 4
    assert found.assumptions[0] == (
        "x: CPU is not given in cores for broker 2, broker 77: there the default's cores count"
    )
    assert found.assumptions[1] == "x: brokers that the cluster does not have are left out: 77"
    assert "in 61.4 kB/s" in repr(found)


def test_without_a_default_every_broker_needs_a_row():
    rows = "".join(f"{broker},{broker}00,big\n" for broker in (1, 2, 5))
    with pytest.raises(InputError, match="x: no capacity of broker 9, and no default; right is"):
        capacity(f"broker_id,nw_in,class\n{rows}")
    found = capacity(f"broker_id,nw_in,class\n{rows}9,7,\n")
    assert found.nw_in.tolist() == [100, 200, 500, 7]
    assert found.price_class == ("big", "big", "big", None)
    assert found.assumptions == ()


def test_disks_that_are_slower_than_the_network_are_named():
    found = capacity("broker_id,nw_in,disk_write\n-1,10,10\n2,,9\n9,5,\n")
    assert found.disk_write.tolist() == [10, 9, 10, 10]
    assert found.assumptions == (
        "x: bytes in are compared with nw_in, although disk_write is less, of broker 2",
    )


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="table is of type str; right is a CapacityTable"):
        kfast.broker_capacity(PAY, "capacity.json")
