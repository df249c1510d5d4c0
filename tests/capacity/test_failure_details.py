"""One failure in full: a worked example, and what is refused.

`tests/capacity/test_capacity_sweep.py` compares it with the controllers on random clusters.
"""

from __future__ import annotations

import pickle

import pytest

import kfast

DESCRIBE = """
Topic: pay\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
Topic: pay\tPartition: 1\tLeader: 2\tReplicas: 2,3,4\tIsr: 2,3,4
Topic: log\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3,1
"""
LOADS = (
    b"topic,partition,bytes_in,bytes_out\npay,0,100,300\npay,1,60,60\nlog,0,200,0\n"
)


def prepare(path, text, loads, **settings):
    """A plan of a few partitions; a broker has 1000 B/s in, 600 B/s out and a core."""
    path.write_text(text)
    state = kfast.read(path)
    load = kfast.partition_load(state, kfast.read_load(("loads.csv", loads), window="mean"))
    rows = b"broker_id,nw_in,nw_out,cores\n-1,1000,600,1\n"
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("brokers.csv", rows)))
    return kfast.prepare_capacity(state, load, capacity, **settings)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("example") / "describe.txt", DESCRIBE, LOADS)


@pytest.mark.parametrize(("failed", "bytes_out"), [
    ([], [500, 180, 200, 0]), ([1], [None, 580, 0, 0]), ([1, 2], [None, None, 420, 0]),
])
def test_a_worked_example(plan, failed, bytes_out):
    failure = kfast.capacity_of(plan, failed)
    table = failure.brokers
    assert table["bytes_out_before"].to_pylist() == [500, 180, 200, 0]
    assert table["bytes_out_after"].to_pylist() == bytes_out
    assert table["failed"].to_pylist() == [broker in failed for broker in (1, 2, 3, 4)]
    assert failure.summary["brokers_down"] == len(failed)
    assert failure.summary["nw_out_max"] == max(used for used in bytes_out if used) / 600


def test_where_bytes_come_from(plan):
    """Broker 2 leads pay-0 instead of broker 1; broker 3 sends log-0 to nobody."""
    failure = kfast.capacity_of(plan, [1])
    row = {
        "failed_broker": 1, "topic": "pay", "partition": 0, "reason": "leads", "bytes_in": 0,
        "bytes_out": 400, "cpu_microcores": None,
    }
    assert failure.explain(2).to_pylist() == [row]
    assert failure.explain(3).to_pylist() == [{
        **row, "topic": "log", "reason": "fewer_followers", "bytes_out": -200,
    }]
    assert failure.explain(4).num_rows == 0
    assert failure.topics.to_pylist() == [{
        "topic": "pay", "from_broker": 1, "to_broker": 2, "partitions": 1, "bytes_in": 100,
        "bytes_out": 300,
    }]
    assert failure.brokers["over_limit"].to_pylist() == [None, ["nw_out"], [], []]


def test_parts_of_a_processor_add_up_where_both_uses_are_halves(tmp_path):
    """1.5 and 2.5 micro-cores are both rounded to 2, so that a part of 1 adds nothing."""
    plan = prepare(
        tmp_path / "describe.txt",
        "Topic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        "Topic: a\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n",
        b"topic,partition,bytes_in,bytes_out\na,0,0,80\na,1,0,120\n",
        cpu_model="write-equivalent",
    )
    failure = kfast.capacity_of(plan, [1])
    row = failure.brokers.to_pylist()[1]
    assert (row["cpu_microcores_before"], row["cpu_microcores_after"]) == (2, 2)
    assert failure.explain(2)["cpu_microcores"].to_pylist() == [0]


def test_what_is_refused(plan):
    failure = kfast.capacity_of(plan, [1])
    with pytest.raises(kfast.ArgumentError, match="broker 1 fails itself"):
        failure.explain(1)
    for call in (lambda: failure.explain(9), lambda: kfast.capacity_of(plan, [9])):
        with pytest.raises(kfast.KfastError, match="9"):
            call()
    with pytest.raises(kfast.ArgumentError, match="plan was pickled"):
        kfast.capacity_of(pickle.loads(pickle.dumps(plan)), [1])
    with pytest.raises(kfast.ArgumentError, match="plan is"):
        kfast.capacity_of(None, [1])
