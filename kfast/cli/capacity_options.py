"""Options of the commands that count in bytes: loads, capacities and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from kfast.arguments import MAX_INT, whole
from kfast.capacity import (
    CPU_MODELS,
    BrokerCapacity,
    CapacityPlan,
    CpuWeights,
    NewReplicas,
    PartitionLoad,
    Restoration,
    broker_capacity,
    partition_load,
    prepare_capacity,
)
from kfast.capacity.failures.cpu_models import MEASURED, check_cpu_model
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS, check_limits
from kfast.capacity.failures.presets import PRESETS
from kfast.capacity.loads.client_racks import FETCH_FROM, LEADER, parse_share
from kfast.capacity.loads.units import parse_rate, parse_seconds
from kfast.capacity.restorations.restoration_times import RESTORE_MODES
from kfast.cli.options import (
    Command,
    FilePath,
    Inputs,
    all_options,
    cluster_options,
    input_text,
    list_option,
    number_option,
    setting_option,
    take_cluster,
)
from kfast.cli.output import progress_bar
from kfast.errors import ArgumentError
from kfast.io import read_plan
from kfast.io.loads import read_capacity, read_load
from kfast.io.merging.log_dir_comparison import REPLICA_SIZES
from kfast.report.answer import Document
from kfast.report.capacity_wording import capacity_head, refuse_without_capacity
from kfast.state import ClusterState

__all__ = [
    "CapacityInput", "capacity_file_option", "capacity_options", "fetch_options",
    "leader_fetch_option", "load_options", "once", "rack_shares_option",
    "restoration_options", "take_capacity", "take_load",
    "take_loaded_cluster", "take_racks", "take_restoration",
]

_COEFFICIENT = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})?")


@dataclass(frozen=True)
class CapacityInput:
    """A cluster with its loads and capacities, as the options of a command name them."""

    source: str
    state: ClusterState
    load: PartitionLoad
    capacity: BrokerCapacity
    normal_limits: Mapping[str, float]
    failed_limits: Mapping[str, float]
    replicas_limit: int | None
    cpu_model: str
    weights: CpuWeights | None
    preset: str | None
    fetch_from: str
    consumer_racks: Mapping[str, str] | None

    @property
    def limits(self) -> dict[str, Any]:
        """What questions in bytes take besides the cluster, its loads and its capacities."""
        names = ("normal_limits", "failed_limits", "replicas_limit", "cpu_model", "weights")
        return {name: getattr(self, name) for name in names}

    def plan(self, threads: int = 1) -> CapacityPlan:
        """The cluster, made ready for sweeps.

        Raises
        ------
        InputError
            No broker has a capacity that its load can be compared with.
        """
        plan = prepare_capacity(
            self.state, self.load, self.capacity, fetch_from=self.fetch_from,
            consumer_racks=self.consumer_racks, threads=threads, **self.limits,
        )
        refuse_without_capacity(self.capacity, plan)
        return plan

    def head(self, command: str, plan: CapacityPlan) -> Document:
        """How the answer of a command begins: with what it is about."""
        document = capacity_head(command, self.source, self.state, self.load, self.capacity, plan)
        document["capacity"]["preset"] = self.preset
        if self.preset is not None:
            document["notes"].append(f"preset {self.preset}: {PRESETS[self.preset].source}")
        return document


def load_options() -> Callable[[Command], Command]:
    """Options of the loads of a cluster."""
    return all_options(
        click.option(
            "--load", "load_files", type=FilePath(), multiple=True, metavar="FILE",
            help="What partitions, topics or brokers carry: CSV, Parquet, kafka-log-dirs, Cruise "
            "Control or Prometheus. May be given more than once; later files fill what earlier "
            "ones lack.",
        ),
        click.option("--window", metavar="TEXT",
                     help="What the rates of --load are, such as 'p95 of 1 h, 2026-11'."),
        number_option("--seconds", type=float, metavar="SECONDS",
                      help="Time between two Prometheus files of the same series without times."),
        list_option(
            "--instances", parse=_instance, metavar="NAME=ID",
            help="Broker ids of Prometheus instances, pods, hosts or files: kafka-1:9404=1.",
        ),
        click.option(
            "--bytes-out-has-replication", is_flag=True,
            help="The bytes out of --load contain what followers fetch: it is taken off.",
        ),
    )


def capacity_file_option(*, required: bool = True) -> Callable[[Command], Command]:
    """Option that names the file of capacities."""
    return click.option(
        "--capacity", "capacity_file", type=FilePath(), required=required, metavar="FILE",
        help="What brokers can carry: CSV, Parquet or Cruise Control's capacity.json.",
    )


def capacity_options(*, required: bool = True) -> Callable[[Command], Command]:
    """INPUT and the options of a cluster, its loads, its capacities and its limits."""
    return all_options(
        cluster_options(),
        setting_option(),
        load_options(),
        capacity_file_option(required=required),
        click.option(
            "--preset", type=click.Choice([*PRESETS]), metavar="NAME",
            help="Limits that others plan with; --limit and --failed-limit come before them. "
            f"{_preset_list()}",
        ),
        list_option(
            "--limit", "normal_limits", parse=_limit, metavar="RESOURCE=SHARE",
            help="Share of its capacity that a broker may use without a failure: nw_out=0.8; or "
            "how many replicas it may hold, whatever fails: replicas=4000.  "
            f"[default: {_shown(NORMAL_LIMITS)}]",
        ),
        list_option(
            "--failed-limit", "failed_limits", parse=_limit, metavar="RESOURCE=SHARE",
            help=f"The same while brokers have failed.  [default: {_shown(FAILED_LIMITS)}]",
        ),
        click.option(
            "--cpu-model", type=click.Choice(CPU_MODELS), default=MEASURED, show_default=True,
            help="How processors follow traffic: in proportion to what --load says that brokers "
            "used, by Cruise Control's weights of bytes; or, whatever is measured, a core for "
            "20 MB/s of bytes in + bytes out / 4, as Google sizes managed clusters, of which "
            "half may be used without a failure.",
        ),
        click.option(
            "--cpu-coefficients", metavar="A,B,C",
            help="Instead of 0.7,0.15,0.15: what a byte costs that is written to a leader, sent, "
            "and written to a follower, in relation to each other.",
        ),
    )


def restoration_options() -> Callable[[Command], Command]:
    """Options that say how failed brokers are restored."""
    return all_options(
        click.option(
            "--restore", type=click.Choice(RESTORE_MODES),
            help="Say how long it takes until all replicas are in sync again: failed brokers "
            "return with their disks, or are replaced by empty ones; or their replicas are made on "
            "the others.",
        ),
        click.option("--down-for", metavar="TIME", help="Time until they return: 600, 10min or 2h."
                     "  [default: 10min]"),
        click.option(
            "--throttle", metavar="RATE",
            help="What each broker may send and receive for replicas that are not in sync: 60MB/s. "
            "It holds for what producers write to them meanwhile, too.",
        ),
        click.option("--round-trip", metavar="TIME",
                     help="Between two brokers: 0.5ms. Fetchers limit copies where it is given."),
        number_option("--fetchers", type=click.IntRange(1, 100),
                      help="num.replica.fetchers, with --round-trip.  [default: 1]"),
        click.option(
            "--new-replicas", type=FilePath(), metavar="PLAN",
            help="Where replicas are made, for --restore redistribute: a reassignment plan.  "
            "[default: on brokers that have most room]",
        ),
    )


def rack_shares_option(name: str, what: str) -> Callable[[Command], Command]:
    """Option that says which share of some clients is in each rack."""
    return list_option(
        name, parse=_rack_share, metavar="RACK=SHARE",
        help=f"{what}: a=0.5,b=0.5.  [default: equal over the racks]",
    )


def fetch_options() -> Callable[[Command], Command]:
    """Options that say where consumers fetch."""
    return all_options(
        click.option(
            "--fetch-from", type=click.Choice(FETCH_FROM), default=LEADER, show_default=True,
            help="Where consumers fetch: from leaders, or (KIP-392) from a live in-sync replica in "
            "their own rack, if there is one.",
        ),
        rack_shares_option("--consumer-racks", "Where consumers are that fetch from the nearest"),
    )


def _refuse_fetch_from(_ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise ArgumentError(
            "--fetch-from is not taken here: placements are measured with consumers that fetch "
            "from leaders"
        )


def leader_fetch_option() -> Callable[[Command], Command]:
    """Option of `fetch_options` where it is not taken: it says so."""
    return click.option(
        "--fetch-from", hidden=True, expose_value=False, callback=_refuse_fetch_from
    )


def take_racks(options: dict[str, Any], name: str) -> dict[str, str] | None:
    """Take the shares of `rack_shares_option` out of a command's options; None for none.

    Raises
    ------
    ArgumentError
        A rack is given twice.
    """
    return once(f"--{name.replace('_', '-')}", options.pop(name, ())) or None


def take_capacity(sources: Inputs, options: dict[str, Any]) -> CapacityInput:
    """Take `capacity_options` out of a command's options, and read the files that they name.

    Raises
    ------
    ArgumentError
        A limit is given twice, or is none that is allowed.
    InputError
        A file cannot be read, or does not go with the cluster.
    """
    limits = {
        name: once(f"--{flag}", options.pop(name))
        for flag, name in (("limit", "normal_limits"), ("failed-limit", "failed_limits"))
    }
    cpu_model: str = options.pop("cpu_model")
    coefficients = options.pop("cpu_coefficients")
    weights = None if coefficients is None else _weights(coefficients)
    check_cpu_model(cpu_model, weights)
    replicas_limit = _replicas_limit(limits["normal_limits"])
    fetch_from: str = options.pop("fetch_from", LEADER)
    consumer_racks = take_racks(options, "consumer_racks")
    if consumer_racks and fetch_from == LEADER:
        raise ArgumentError("--consumer-racks goes with --fetch-from nearest")
    preset: str | None = options.pop("preset")
    if preset is not None:
        recommended = PRESETS[preset].arguments
        limits = {name: recommended[name] | values for name, values in limits.items()}
        replicas_limit = replicas_limit or recommended["replicas_limit"]
    check_limits(limits["normal_limits"], NORMAL_LIMITS)
    check_limits(limits["failed_limits"], FAILED_LIMITS)
    capacity_file: Path = options.pop("capacity_file")
    state, load = take_loaded_cluster(sources, options)
    capacity = broker_capacity(state, read_capacity(capacity_file))
    return CapacityInput(
        input_text(sources), state, load, capacity, **limits, replicas_limit=replicas_limit,
        cpu_model=cpu_model, weights=weights, preset=preset, fetch_from=fetch_from,
        consumer_racks=consumer_racks,
    )


def take_restoration(
    options: dict[str, Any]
) -> Callable[[ClusterState], Restoration] | None:
    """Take `restoration_options` out of a command's options: how brokers of a cluster are restored.

    None where that is not asked for.

    Raises
    ------
    ArgumentError
        An option goes with another, or with --restore.
    """
    mode: str | None = options.pop("restore")
    down_for, throttle, trip, fetchers, plan = (
        options.pop(name)
        for name in ("down_for", "throttle", "round_trip", "fetchers", "new_replicas")
    )
    for name, value, is_right, needed in (
        ("--down-for", down_for, mode == "return", "--restore return"),
        ("--throttle", throttle, mode is not None, "--restore"),
        ("--round-trip", trip, mode is not None, "--restore"),
        ("--fetchers", fetchers, trip is not None, "--round-trip"),
        ("--new-replicas", plan, mode == "redistribute", "--restore redistribute"),
    ):
        if value is not None and not is_right:
            raise ArgumentError(f"{name} goes with {needed}")
    if mode is None:
        return None
    rate = None if throttle is None else parse_rate("--throttle", throttle)
    settings = Restoration(
        mode, down_for_seconds=round(parse_seconds("--down-for", down_for or "10min")),
        leader_throttle=rate, follower_throttle=rate, fetchers=fetchers or 1,
        round_trip_seconds=None if trip is None else float(parse_seconds("--round-trip", trip)),
    )

    def make(state: ClusterState) -> Restoration:
        if plan is None:
            return settings
        return replace(settings, new_replicas=NewReplicas.of(state, read_plan(plan)))

    return make


def _preset_list() -> str:
    """Every preset with its source; those of one source together."""
    by_source: dict[str, list[str]] = {}
    for name, preset in PRESETS.items():
        by_source.setdefault(preset.source, []).append(name)
    return " ".join(f"{', '.join(names)}: {source}." for source, names in by_source.items())


def _weights(text: str) -> CpuWeights:
    """Weights of a processor's work, as three numbers of at most four decimals."""
    numbers = text.split(",")
    if len(numbers) != 3 or not all(_COEFFICIENT.fullmatch(part.strip()) for part in numbers):
        raise ArgumentError(
            f"--cpu-coefficients {text!r} is not A,B,C of at most four decimals, such as "
            "0.7,0.15,0.15"
        )
    return CpuWeights.in_lowest_terms(*(int(Fraction(part) * 10_000) for part in numbers))


def _replicas_limit(limits: dict[str, float]) -> int | None:
    """Take the limit that is no share out of those of --limit."""
    limit = limits.pop("replicas", None)
    if limit is not None and not limit.is_integer():
        raise ArgumentError(f"--limit replicas is {limit:g}: a whole number is needed")
    return None if limit is None else whole("--limit replicas", int(limit), 1, MAX_INT)


def take_load(options: dict[str, Any]) -> Callable[[ClusterState], PartitionLoad] | None:
    """Take `load_options` out of a command's options: what reads the loads of a cluster.

    None where no file of loads is named.

    Raises
    ------
    ArgumentError
        An instance is given twice, or an option goes with --load.
    """
    files: tuple[Path, ...] = options.pop("load_files")
    window, seconds = options.pop("window"), options.pop("seconds")
    instances = once("--instances", options.pop("instances"))
    has_replication: bool = options.pop("bytes_out_has_replication")
    if not files:
        for name, value in (
            ("--window", window), ("--seconds", seconds), ("--instances", instances),
            ("--bytes-out-has-replication", has_replication),
        ):
            if value:
                raise ArgumentError(f"{name} goes with --load")
        return None

    def make(state: ClusterState) -> PartitionLoad:
        with progress_bar("Reading loads"):
            tables = read_load(
                *files, window=window, seconds=seconds, instances=instances or None
            )
            return partition_load(state, tables, bytes_out_has_replication=has_replication)

    return make


def take_loaded_cluster(
    sources: Inputs, options: dict[str, Any]
) -> tuple[ClusterState, PartitionLoad]:
    """Read a cluster and its loads; log directories among its files are loads too.

    Raises
    ------
    ArgumentError
        Nothing says what partitions carry.
    """
    state = take_cluster(sources, options)
    origins = [] if state.provenance is None else state.provenance.to_pylist()
    sizes = (Path(row["source"]) for row in origins if row["columns"] == REPLICA_SIZES)
    options["load_files"] = (*options["load_files"], *sizes)
    make = take_load(options)
    if make is None:
        raise ArgumentError(
            "give --load FILE: no INPUT says what partitions carry, as the output of kafka-log-dirs"
            " does"
        )
    return state, make(state)


def _rack_share(text: str) -> Iterable[tuple[str, str]]:
    """The share of a rack, as rack=share."""
    rack, _, share = (part.strip() for part in text.rpartition("="))
    parse_share(f"the share of rack {rack!r}", share)
    return ((rack, share),)


def _shown(limits: Mapping[str, int]) -> str:
    """Limits in basis points as the option takes them."""
    return ",".join(f"{name}={points / 10_000:g}" for name, points in limits.items())


def _limit(text: str) -> Iterable[tuple[str, float]]:
    """A limit, as resource=share."""
    name, _, share = text.partition("=")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", share.strip()):
        raise ArgumentError(f"{text!r} is not RESOURCE=SHARE, such as nw_out=0.8")
    return ((name.strip(), float(share)),)


def _instance(text: str) -> Iterable[tuple[str, int]]:
    """The broker id of a Prometheus instance, as name=id."""
    name, _, broker = text.rpartition("=")
    if not name.strip() or not re.fullmatch(r"[0-9]{1,9}", broker.strip()):
        raise ArgumentError(f"{text!r} is not NAME=ID, such as kafka-1:9404=1")
    return ((name.strip(), int(broker)),)


def once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Pairs by their names; two values of one are refused."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if values.setdefault(name, value) != value:
            raise ArgumentError(f"{option} {name} is given as {values[name]} and as {value}")
    return values
