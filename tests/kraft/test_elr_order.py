"""A computed ELR has the order of Java's HashSet: that of the kernel, of the twin, and of a JVM.

Source: docs/kraft.md, section 9.2.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.state.changes import Visited
from kfast.state.kraft_releases import ELR_VERSION, METADATA_VERSION, RELEASES
from kfast.state.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    ResourceType,
    TopicRecord,
    uuid_text,
)
from tests.support.kraft_kernels import KernelCluster
from tests.support.kraft_reference.hash_orders import hash_of_int, java_hash_set_order
from tests.support.kraft_reference.state import ClusterState

pytestmark = pytest.mark.kernels

# OpenJDK 17.0.15: `set = new HashSet<>(elr); set.addAll(isr)`, and the order of `set`.
ORDERS = [
    ([], [111, 101, 112, 3], [112, 3, 101, 111]),
    ([1088], [704, 1728, 1087, 992, 1664, 1904, 544, 643, 1600, 44, 1312],
     [1088, 704, 1728, 992, 1664, 544, 1600, 1312, 643, 44, 1904, 1087]),
    ([800], [448, 1687, 784, 736, 624, 0, 704, 225, 528, 640, 384],
     [800, 448, 736, 0, 704, 640, 384, 225, 784, 624, 528, 1687]),
    ([1101, 1120, 1824, 896],
     [1728, 320, 1633, 1216, 640, 928, 1088, 915, 32, 1473, 1276],
     [896, 1728, 320, 1216, 640, 1088, 1473, 1101, 915, 1120, 1824, 928, 32, 1633, 1276]),
    ([1150, 1680, 1088, 1856, 1568, 513, 800, 449, 704, 1120, 224, 1664], [960],
     [1088, 1856, 704, 1664, 960, 513, 449, 1680, 1568, 800, 1120, 224, 1150]),
    ([1184, 1408, 800, 1504, 320, 960, 576, 1696, 1153], [96, 768, 224, 1845],
     [1408, 320, 960, 576, 768, 1153, 1184, 800, 1504, 1696, 96, 224, 1845]),
    ([672, 224, 800, 512, 1600, 1328], [768, 1632, 1373, 1760, 1856, 480, 947, 384, 737],
     [512, 1600, 768, 1856, 384, 1373, 672, 224, 800, 1632, 1760, 480, 737, 1328, 947]),
]


def one_partition(elr: list[int], isr: list[int]) -> KernelCluster:
    """A partition on brokers that are all active, below min ISR whatever happens."""
    twin = ClusterState(RELEASES["kraft-4.1"])
    topic, brokers = uuid_text(1, 1), tuple(elr + isr)
    twin.replay(FeatureLevelRecord(0, METADATA_VERSION, 27), 0)
    twin.replay(FeatureLevelRecord(0, ELR_VERSION, 1), 0)
    for broker in sorted(brokers):
        twin.replay(RegisterBrokerRecord(3, broker, uuid_text(9, broker), 1, fenced=False), 0)
    twin.replay(TopicRecord(0, "t", topic), 0)
    twin.replay(ConfigRecord(0, ResourceType.TOPIC, "t", "min.insync.replicas", "64"), 0)
    twin.replay(PartitionRecord(
        2, 0, topic, brokers, tuple(isr), (), (), isr[0], 0, 0, 0, None, tuple(elr)
    ), 0)
    return KernelCluster(twin)


@pytest.mark.parametrize(("elr", "isr", "order"), ORDERS)
def test_an_elr_has_the_order_of_a_jvm(elr, isr, order):
    """Each member of the ISR leaves; a ninth id of one bucket doubles a table of less than 64."""
    assert java_hash_set_order([*elr, *isr], hash_of_int, copied=len(elr)) == order
    for leaving in isr:
        cluster, log = one_partition(elr, isr), ChangeLog()
        (row,) = cluster.rows_of([leaving])
        rows = np.zeros(1, np.int32)
        failed = partition_changes.update(
            cluster.columns, cluster.rules, rows, Visited.IN_ISR, row, -1, -1, log
        )
        assert failed == -1
        record = cluster.record(log, 0)
        # Without an ISR, one of the ELR is elected, and becomes the ISR.
        assert record.isr == tuple(b for b in isr if b != leaving) or record.isr == (record.leader,)
        eligible = {*elr, leaving}.difference(record.isr)
        expected = tuple(b for b in order if b in eligible)
        assert record.eligible_leader_replicas == expected
