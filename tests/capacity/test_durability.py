"""Chances of losing data and service in a year (`kfast.durability`), and published figures."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import ArgumentError
from kfast.capacity.planning.durability_chances import (
    YEAR_SECONDS,
    burst_probability,
    cascade_probability,
    mean_time_to_loss,
    mean_time_to_loss_of_brokers,
    tails,
)


def exactly(copies, failure, repair, at_once):
    """Mean time to a loss in fractions, by Gaussian elimination over numbers of failed copies."""
    rows = []
    for failed in range(copies):
        out, back = (copies - failed) * failure, at_once(failed) * repair
        row = [Fraction(0)] * copies + [Fraction(1)]
        row[failed] += out + back
        if failed + 1 < copies:
            row[failed + 1] -= out
        if failed:
            row[failed - 1] -= back
        rows.append(row)
    for pivot in range(copies):
        rows[pivot] = [value / rows[pivot][pivot] for value in rows[pivot]]
        for other in range(copies):
            if other != pivot:
                factor = rows[other][pivot]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[pivot],
                                                              strict=True)]
    return rows[0][copies]


@pytest.mark.parametrize("copies", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("failure", "repair"), [(3, 7), (1, 100_000), (50, 1)])
def test_the_chain_is_solved(copies, failure, repair):
    laws = {"parallel": lambda failed: failed, "serial": lambda failed: min(failed, 1)}
    for kind, at_once in laws.items():
        wanted = exactly(copies, Fraction(failure), Fraction(repair), at_once)
        assert mean_time_to_loss(copies, failure, repair, kind) == pytest.approx(
            float(wanted), rel=1e-12
        )


def test_the_closed_forms_of_two_and_three_copies():
    failure, repair = 0.3, 1000.0
    forms = {
        (2, "parallel"): (3 * failure + repair) / (2 * failure**2),
        (3, "serial"): (11 * failure**2 + 4 * failure * repair + repair**2) / (6 * failure**3),
        (3, "parallel"):
            (11 * failure**2 + 7 * failure * repair + 2 * repair**2) / (6 * failure**3),
    }
    for (copies, kind), wanted in forms.items():
        assert mean_time_to_loss(copies, failure, repair, kind) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 3, 4, 8])
def test_brokers_that_are_alike_give_the_chain(copies):
    seen = mean_time_to_loss_of_brokers([0.01] * copies, [2.0] * copies)
    assert seen == pytest.approx(mean_time_to_loss(copies, 0.01, 2.0), rel=1e-12)


def test_brokers_that_differ():
    """Two brokers: from both up, the first failure decides whose repair is awaited."""
    a, b, repair_a, repair_b = 0.02, 0.05, 3.0, 11.0
    start, only_a, only_b = np.linalg.solve(
        [[a + b, -a, -b], [-repair_a, repair_a + b, 0], [-repair_b, 0, repair_b + a]], [1, 1, 1]
    )
    assert mean_time_to_loss_of_brokers([a, b], [repair_a, repair_b]) == pytest.approx(
        start, rel=1e-12
    )
    assert only_a < start > only_b


# --- published figures --------------------------------------------------------------------------


def test_xoring_elephants_table_1():
    """Sathiamoorthy et al., PVLDB 2013: 3000 nodes, 30 PB, MTTF 4 years, blocks of 256 MB, 1 Gbps.

    In binary units: 2^28 B at 2^30 bit/s take 2 s. Decimal units give another figure.
    """
    stripes = 30 * 2**50 / (3 * 2**28)
    days = mean_time_to_loss(3, 1 / 1460, 43_200, "serial") / stripes
    assert f"{days:.4E}" == "2.3079E+10"
    decimal = mean_time_to_loss(3, 1 / 1460, 86_400 / (256e6 * 8 / 1e9), "serial")
    assert f"{decimal / (30e15 / (3 * 256e6)):.2E}" == "2.36E+10"


def test_azure_lrc_table_1_goes_with_the_third_power_of_the_failure_rate():
    """Huang et al., ATC 2012: the excerpt at hand does not state the MTTF, so only the ratio."""
    repair = 365.25 * 48
    twice, once = (mean_time_to_loss(3, failure, repair) for failure in (0.4, 0.2))
    assert once / twice == pytest.approx(8, rel=1e-3)


@pytest.mark.parametrize(
    ("copies", "printed"), [(1, "7.214565e-03"), (2, "4.948027e-07"), (3, "5.090256e-11")]
)
def test_the_reliability_model_of_ceph(copies, printed):
    """DiskRely, RadosRely: FIT 826, 2 TB three quarters full, 200 groups, 50 MB/s, 10 minutes."""
    hours = 2e12 * 0.75 / (50e6 * 200) / 3600 + 10 / 60
    seen = cascade_probability(copies, 826e-9, 365.25 * 24, hours, 200)
    assert f"{seen:.6e}" == printed


def test_ford_et_al_repair_time_lifts_three_copies_by_its_square():
    """Osdi 2010: where repairs are m times faster, MTTF is m^2 times longer."""
    slow, fast = (mean_time_to_loss(3, 1e-4, repair) for repair in (10.0, 40.0))
    assert fast / slow == pytest.approx(16, rel=0.01)


def test_three_replicas_of_three_nines():
    under = float(tails(np.full((1, 3), 1e-3), 2)[0])
    assert under == pytest.approx(3e-6 - 2e-9, rel=1e-9)
    assert f"{under:.3e}" == "2.998e-06"


def test_a_year_has_365_and_a_quarter_days():
    assert YEAR_SECONDS == 31_557_600


def test_the_tail_is_the_sum_over_who_is_down():
    """Each broker with a chance of its own; the binomial where all have one."""
    for n, least in product((1, 3, 4), (1, 2, 3)):
        chances = [[0.0, 0.2, 1.0, 0.35][:n], [0.2] * n, [0.0] * n, [1.0] * n]
        wanted = [
            sum(np.prod([q if is_down else 1 - q for q, is_down in zip(own, down, strict=True)])
                for down in product((0, 1), repeat=n) if sum(down) >= least)
            for own in chances
        ]
        assert tails(np.array(chances), least).tolist() == pytest.approx(wanted, abs=1e-15)


def test_bursts_of_a_year():
    assert burst_probability(0.0, 5) == 0
    assert burst_probability(1.0, 5) == 1
    assert burst_probability(1.0, 0) == 0
    assert burst_probability(0.25, 2) == pytest.approx(1 - 0.75**2)


# --- clusters -----------------------------------------------------------------------------------


def cluster():
    return kfast.ClusterState.from_tables(
        brokers=pa.table({"broker_id": pa.array([1, 2, 3, 4], pa.int32())}),
        topics=pa.table({"topic": ["a", "b"], "min_insync_replicas": pa.array([2, 1], pa.int32())}),
        partitions=pa.table({
            "topic": ["a", "a", "a", "b"], "partition": pa.array([0, 1, 2, 0], pa.int32()),
            "replicas": pa.array([[1, 2, 3], [3, 1, 2], [2, 3, 4], [4]], pa.list_(pa.int32())),
            "isr": pa.array([[1, 2, 3], [3], [2, 3, 4], [4]], pa.list_(pa.int32())),
            "leader": pa.array([1, 3, 2, 4], pa.int32()),
        }),
    )


def load_of(state):
    rows = (b"topic,partition,bytes_in,bytes_out,disk_bytes\n"
            b"a,0,10,0,1000\na,1,20,0,2000\na,2,40,0,4000\nb,0,5,0,500\n")
    return kfast.partition_load(state, kfast.read_load(("l", rows), window="mean"))


def test_partitions_that_share_a_copyset_are_lost_together():
    state = cluster()
    found = kfast.durability(state, mttf_years=2, repair_hours=6, load=load_of(state))
    repair = 365.25 * 24 / 6
    of_one, of_three = found.copysets.to_pylist()
    assert [(row["copies"], row["copysets"], row["partitions"]) for row in (of_one, of_three)] == [
        (1, 1, 1), (3, 2, 3)
    ]
    assert of_one["mttdl_years"] == pytest.approx(2)
    assert of_three["mttdl_years"] == pytest.approx(mean_time_to_loss(3, 0.5, repair))
    assert of_three["losses_per_year"] == pytest.approx(2 / of_three["mttdl_years"])
    assert of_three["bytes_lost_per_year"] == pytest.approx(7000 / of_three["mttdl_years"])
    assert of_one["bytes_lost_per_year"] == pytest.approx(250)
    assert found.losses_per_year == pytest.approx(
        of_one["losses_per_year"] + of_three["losses_per_year"]
    )
    assert found.loss_probability(3) == pytest.approx(1 - np.exp(-3 * found.losses_per_year))


def test_outages_cost_service_and_no_data():
    state = cluster()
    load = load_of(state)
    plain = kfast.durability(state, mttf_years=2, repair_hours=6, load=load)
    found = kfast.durability(
        state, mttf_years=2, repair_hours=6, outages_per_year=12, outage_seconds=600, load=load
    )
    assert found.copysets.equals(plain.copysets)
    broken = 6 * 3600 / (2 * YEAR_SECONDS + 6 * 3600)
    q = 1 - (1 - broken) * (1 - 7200 / (YEAR_SECONDS + 7200))
    assert found.unavailability.tolist() == pytest.approx([q] * 4)
    of_one, of_three = found.availability.to_pylist()
    assert (of_one["replicas"], of_one["min_isr"], of_one["partitions"]) == (1, 1, 1)
    assert (of_three["replicas"], of_three["min_isr"], of_three["partitions"]) == (3, 2, 3)
    assert of_three["under_min_isr_probability"] == pytest.approx(3 * q**2 - 2 * q**3)
    assert of_three["leaderless_probability"] == pytest.approx(q**3)
    assert of_three["bytes_in_refused_per_year"] == pytest.approx(
        70 * YEAR_SECONDS * (3 * q**2 - 2 * q**3)
    )
    assert of_one["bytes_in_leaderless_per_year"] == pytest.approx(5 * YEAR_SECONDS * q)


def test_each_broker_may_have_a_repair_time_of_its_own():
    """Each copyset is the chain of its own brokers; a partition counts by who holds it."""
    state, hours = cluster(), np.array([2.0, 6.0, 11.0, 1.0])
    load = load_of(state)
    found = kfast.durability(state, mttf_years=2, repair_hours=hours, load=load)
    of_one, of_three = found.copysets.to_pylist()
    repair = 365.25 * 24 / hours
    first, second = (mean_time_to_loss_of_brokers([0.5] * 3, repair[list(brokers)])
                     for brokers in ((0, 1, 2), (1, 2, 3)))
    assert of_three["losses_per_year"] == pytest.approx(1 / first + 1 / second)
    assert of_three["mttdl_years"] == pytest.approx(2 / (1 / first + 1 / second))
    assert of_three["bytes_lost_per_year"] == pytest.approx(3000 / first + 4000 / second)
    assert of_one["mttdl_years"] == pytest.approx(2)
    q = hours * 3600 / (2 * YEAR_SECONDS + hours * 3600)
    assert found.unavailability.tolist() == pytest.approx(q.tolist())
    under = [sum(tails(q[None, list(brokers)], 2)) for brokers in ((0, 1, 2), (2, 0, 1), (1, 2, 3))]
    row = found.availability.to_pylist()[1]
    assert row["under_min_isr_probability"] == pytest.approx(sum(under) / 3)
    assert row["bytes_in_refused_per_year"] == pytest.approx(
        YEAR_SECONDS * (10 * under[0] + 20 * under[1] + 40 * under[2]))
    alike = kfast.durability(state, mttf_years=2, repair_hours=[6.0] * 4, load=load)
    plain = kfast.durability(state, mttf_years=2, repair_hours=6, load=load)
    assert alike.copysets.equals(plain.copysets)
    assert alike.availability.equals(plain.availability)


def test_repair_times_are_those_of_empty_brokers():
    """10 TB at 100 MB/s and ten minutes: a broker that holds nothing has only the minutes."""
    state = cluster()
    rows = b"topic,partition,bytes_in,bytes_out,disk_bytes\nb,0,0,0,5000000000000\n"
    rows = rows.replace(b"b,0", b"a,0")
    load = kfast.partition_load(state, kfast.read_load(("l", rows), window="mean"))
    table = kfast.read_capacity(("c", b"broker_id,nw_in,nw_out\n-1,1e12,1e12\n"))
    plan = kfast.prepare_capacity(state, load, kfast.broker_capacity(state, table))
    settings = kfast.Restoration("replace", follower_throttle=100_000_000)
    hours = kfast.repair_hours(plan, settings)
    assert (hours * 3600).tolist() == pytest.approx([50_600, 50_600, 50_600, 600])
    with pytest.raises(ArgumentError, match="settings: mode is 'return'; right is replace"):
        kfast.repair_hours(plan, kfast.Restoration("return"))
    writes = kfast.partition_load(state, kfast.read_load(("l", rows.replace(b"0,0,5", b"9,0,5"))))
    stuck = kfast.prepare_capacity(state, writes, kfast.broker_capacity(state, table))
    with pytest.raises(ArgumentError, match=r"place of 1 would never .* a throttle of 10 B/s"):
        kfast.repair_hours(stuck, kfast.Restoration("replace", follower_throttle=5))
    kfast.open_controller(state).on_broker_failure([1, 2, 3, 4])
    down = kfast.prepare_capacity(state, load, kfast.broker_capacity(state, table))
    with pytest.raises(ArgumentError, match="no broker is up, so none can fail and be replaced"):
        kfast.repair_hours(down)


def test_without_a_load_no_bytes_are_said():
    found = kfast.durability(cluster(), mttf_years=2, repair_hours=6)
    assert found.bytes_lost_per_year is None
    assert found.availability["bytes_in_refused_per_year"].null_count == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mttf_years": 1, "repair_hours": 1000}, "repair_hours is 1000: with 3 copies .*repair"),
        ({"mttf_years": 1, "repair_hours": [1, 2]}, r"repair_hours has shape \(2,\); .* or 4 of"),
        ({"mttf_years": 1, "repair_hours": [1, 2, 0, 1]}, "repair_hours is 0"),
        ({"mttf_years": 1, "repair_hours": [1] * 4, "repair": "serial"}, "repair is 'serial'"),
        ({"mttf_years": 0, "repair_hours": 1}, "mttf_years is 0"),
        ({"mttf_years": float("nan"), "repair_hours": 1}, "mttf_years is nan"),
        ({"mttf_years": 1, "repair_hours": -1}, "repair_hours is -1"),
        ({"mttf_years": 1, "repair_hours": 1, "repair": "none"}, "allowed are parallel, serial"),
        ({"mttf_years": 1, "repair_hours": 1, "outage_seconds": 1e9}, "outage_seconds is"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        kfast.durability(cluster(), **arguments)


@pytest.mark.parametrize(
    ("rates", "message"),
    [(([], []), "failure_rates has 0 brokers"), (([1.0] * 9, [1.0] * 9), "has 9 brokers"),
     (([1.0], [1.0, 2.0]), "repair_rates 2"), (([0.0], [1.0]), "failure_rates is 0.0")],
)
def test_rates_that_cannot_be_are_refused(rates, message):
    with pytest.raises(ArgumentError, match=message):
        mean_time_to_loss_of_brokers(*rates)
