"""Loads from Prometheus metrics: scrapes as text, and answers of its query API as JSON.

Which series are used stands in `_SERIES`; all others are passed over. A counter needs two samples,
of two files or of a range query, and gives its mean rate between the first and the last. One that
falls was reset by a restart and is left out. Series without a topic are sums that a broker makes
itself: they are not added to the others, only compared.

Source: docs/formats.md, section "Loads and capacities"; Kafka 3.9, BrokerTopicMetrics.java;
kminion, its list of exported metrics; Prometheus, text exposition format 0.0.4.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from msgspec import Struct

from kfast.arguments import MAX_INT, plural, whole
from kfast.errors import InputError
from kfast.io.files import abbreviate, quote
from kfast.io.json_documents import decode_document
from kfast.io.loads.tables import LOAD_UNITS, LoadTable, check_load, disagree, to_integer

__all__ = ["Scrape", "parse_query", "parse_text", "read_prometheus"]

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Measure:
    """What a series says.

    Parameters
    ----------
    column : str
        Key of `LOAD_UNITS`.
    counter : bool
        It counts since the start of a process.
    window : str
        What a rate is the mean of; empty where the name does not say.
    largest : bool
        Several series of one topic or partition say the same: the largest counts, not the sum.
    """

    column: str
    counter: bool = False
    window: str = ""
    largest: bool = False


_BEANS = {"bytesin": "bytes_in", "bytesout": "bytes_out", "messagesin": "msgs_in"}
_RATES = {"oneminuterate": "1 min", "fiveminuterate": "5 min", "fifteenminuterate": "15 min"}
_BEAN = re.compile(
    r"kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)(?:persec)?"
    r"_(total|count|oneminuterate|fiveminuterate|fifteenminuterate)"
)
_SERIES = {
    "kafka_log_log_size": _Measure("disk_bytes", largest=True),
    "kafka_log_log_size_value": _Measure("disk_bytes", largest=True),
    "kafka_log_size": _Measure("disk_bytes", largest=True),
    "kafka_log_log_logendoffset": _Measure("msgs_in", counter=True, largest=True),
    "kafka_log_log_logendoffset_value": _Measure("msgs_in", counter=True, largest=True),
    "kafka_topic_partition_current_offset": _Measure("msgs_in", counter=True, largest=True),
    "kminion_kafka_topic_partition_high_water_mark": _Measure(
        "msgs_in", counter=True, largest=True
    ),
    "kminion_kafka_topic_high_water_mark_sum": _Measure("msgs_in", counter=True, largest=True),
    "kminion_kafka_topic_log_dir_size_total_bytes": _Measure("replicated_bytes", largest=True),
    "kminion_kafka_broker_log_dir_size_total_bytes": _Measure("disk_bytes", largest=True),
    "node_cpu_seconds_total": _Measure("cpu", counter=True),
    **{name: _Measure(name) for name in LOAD_UNITS},
}
"""Series by their name in lower case; those of `LOAD_UNITS` are what `label_replace` may name."""
_TOPIC, _PARTITION = ("topic", "topic_name"), ("partition", "partition_id")
_BROKER = ("broker_id", "broker", "node_id")
_POD = ("pod", "kubernetes_pod_name", "pod_name")
_INSTANCE = ("instance", *_POD, "host", "hostname", "node")
_BY_BROKER = (*_BROKER, *_INSTANCE)
_CLUSTER = ("cluster", "kafka_cluster", "strimzi_io_cluster", "cluster_name", "cluster_id")
_IDLE = ("idle", "iowait")
_OF_BROKERS = ("cpu", "cpu_microcores")
_KNOWN = (
    "kafka_server_brokertopicmetrics_bytesin_total and the like, kafka_log_log_size,"
    " kafka_topic_partition_current_offset, kminion_kafka_..., node_cpu_seconds_total"
)
_OVERRIDE = " (--instances, instances= override)"
_YEAR_2001, _YEAR_9999 = 1e9, 253_370_764_800
"""Times between are those of the calendar, others only count from the first file."""
_LINE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+(-?\d{1,18}))?[ \t\r]*"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*,?[ \t]*')
_ESCAPES = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Scrape:
    """The samples of one file that kfast uses.

    Parameters
    ----------
    source : str
        What messages call the file.
    broker : int or None
        The broker that the file is of, where its series do not say it.
    samples : list of (str, str, Labels, float or None, float)
        Where it stands, name and labels of the series, time in seconds, and value.
    """

    source: str
    broker: int | None = None
    samples: list[tuple[str, str, Labels, float | None, float]] = field(default_factory=list)


class _Result(Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(Struct, rename="camel"):
    result_type: str
    result: list[_Result]


class _Answer(Struct):
    status: str
    data: _Data | None = None
    error: str = ""


def _measure(name: str) -> _Measure | None:
    """What a series says; None for one that kfast does not use."""
    lower = name.lower()
    bean = _BEAN.fullmatch(lower)
    if bean is None:
        return _SERIES.get(lower)
    way = bean[2]
    return _Measure(_BEANS[bean[1]], way not in _RATES, _RATES.get(way, ""))


def _full_name(name: str, labels: Mapping[str, str]) -> str:
    """A series' name; that of exporters without rules has the bean's name as a label."""
    if "name" in labels and name.lower().startswith("kafka_server_brokertopicmetrics_"):
        prefix, _, attribute = name.rpartition("_")
        return f"{prefix}_{labels['name']}_{attribute}"
    if "name" in labels and name.lower() == "kafka_log_log_value":
        return f"kafka_log_log_{labels['name']}"
    return name


def parse_text(name: str, data: bytes) -> Scrape:
    """Take the samples of a scrape, in the text format of Prometheus.

    Raises
    ------
    InputError
        A line of a series that kfast uses is damaged, or its value is no number.
    """
    scrape = Scrape(name)
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line or line[0] == "#":
            continue
        where = f"{name} line {number}"
        match = _LINE.fullmatch(line.strip())
        if match is None:
            start = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
            if start and (_measure(start[0]) or start[0].lower().startswith("kafka_server_broker")):
                raise InputError(f"{where}: damaged: {quote(line)}; right is name{{labels}} value")
            continue
        if match[1].lower() not in _SERIES and not match[1].lower().startswith("kafka_"):
            continue
        labels = _parse_labels(where, match[2] or "")
        series = _full_name(match[1], labels)
        if _measure(series) is not None:
            time = None if match[4] is None else int(match[4]) / 1000
            value = _value(where, series, match[3])
            scrape.samples.append((where, series, tuple(sorted(labels.items())), time, value))
    return scrape


def _parse_labels(where: str, text: str) -> dict[str, str]:
    """Labels between the braces of a series."""
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise InputError(f'{where}: found label {quote(text[at:])}; right is name="value"')
        value = match[2]
        if "\\" in value:
            value = _ESCAPES.sub(lambda part: "\n" if part[1] == "n" else part[1], value)
        labels[match[1]] = value
        at = match.end()
    return labels


def _value(where: str, series: str, text: str) -> float:
    """A sample's value."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: found {quote(text)} for {series}; right is a finite number")
    return value


def parse_query(name: str, data: bytes, start: int) -> Scrape:
    """Take the samples of an answer of Prometheus' query API, of one moment or of a range.

    Raises
    ------
    InputError
        It is damaged, is an error, or has a series without a name or a value that is no number.
    """
    where, answer = decode_document(name, data, start, _Answer, "an answer of Prometheus")
    if answer.status != "success" or answer.data is None:
        raise InputError(
            f"{where}: the query failed: {quote(answer.error or answer.status)}; right is an answer"
            " whose status is success"
        )
    if answer.data.result_type not in ("vector", "matrix"):
        raise InputError(
            f"{where}: found resultType {quote(answer.data.result_type)}; right is vector or matrix"
        )
    scrape = Scrape(name)
    for number, result in enumerate(answer.data.result):
        place = f"{where} (result {number})"
        labels = dict(result.metric)
        metric = labels.pop("__name__", "")
        if not metric:
            raise InputError(
                f"{place}: the series has no name, so that nothing says what it is; right is the"
                ' counter itself over a range, or label_replace(..., "__name__", "bytes_in", "",'
                ' "")'
            )
        series = _full_name(metric, labels)
        if _measure(series) is None:
            continue
        values = [result.value] if result.value is not None else result.values
        scrape.samples.extend(
            (place, series, tuple(sorted(labels.items())), time, _value(place, series, value))
            for time, value in values
        )
    return scrape


@dataclass(frozen=True)
class _Series:
    """The samples of one series, values by their time in seconds."""

    source: str
    where: str
    measure: _Measure
    labels: dict[str, str]
    samples: dict[float, float]


def read_prometheus(
    scrapes: Sequence[Scrape],
    *,
    seconds: float | None = None,
    instances: Mapping[str, int] | None = None,
) -> LoadTable:
    """Make a load of the samples of one or more files.

    Parameters
    ----------
    scrapes : sequence of Scrape
        The files; those whose samples have no time in the order in which they were taken.
    seconds : float, optional
        Time between two files whose samples have none.
    instances : mapping of str to int, optional
        Broker ids of values of the labels `instance`, `pod` or `host`; and of files, for series
        that have none of these labels.

    Raises
    ------
    InputError
        The series are of several clusters, contradict each other, or say nothing of loads; a
        counter has one sample, or all fall.
    """
    source = ", ".join(scrape.source for scrape in scrapes)
    instances = instances or {}
    series = _join([
        replace(scrape, broker=instances.get(scrape.source)) for scrape in scrapes
    ], seconds)
    _refuse_clusters(source, series)
    rates = _Rates(source, series)
    notes, warnings = rates.notes(), list[str]()
    brokers = _brokers_of(source, rates.values, instances, notes)
    cells: dict[_Key, _Cells] = {}
    totals: dict[str, int] = defaultdict(int)
    for one, rate in rates.values:
        measure, key = one.measure, _key(one, brokers)
        value = to_integer(measure.column, rate, LOAD_UNITS[measure.column], one.where)
        if key is None or (key.topic is None and key.broker is None):
            if one.labels.get("mode") is None:
                totals[measure.column] += value
            continue
        row = cells.setdefault(key, {})
        before = row.get(measure.column, (0, ""))[0]
        row[measure.column] = (
            max(before, value) if measure.largest else before + value, one.where
        )
    _compare_totals(source, totals, cells, warnings)
    if not cells:
        raise InputError(f"{source}: no series with a topic or a broker id; right is at least one")
    columns = _columns(cells)
    return LoadTable(
        source, pa.table(columns), rates.window, True, tuple(notes), tuple(warnings)
    )


_Cells: TypeAlias = dict[str, tuple[int, str]]
"""Of what one row is of: values by their key of `LOAD_UNITS`, and where each stands."""


class _Key(NamedTuple):
    """What a value is of."""

    topic: str | None
    partition: int | None
    broker: int | None


def _label(labels: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The first label of some names that is there, and not empty."""
    return next((labels[name] for name in names if labels.get(name)), None)


def _join(scrapes: Sequence[Scrape], seconds: float | None) -> list[_Series]:
    """Samples of all files, series by series; those without a time in the order of the files.

    Files of several brokers may be of one moment, so a file's time is its place among those of its
    broker. Only a series that two files have needs the seconds between them.
    """
    joined: dict[tuple[str, Labels], _Series] = {}
    n_before: dict[int | None, int] = defaultdict(int)
    for scrape in scrapes:
        number = n_before[scrape.broker]
        n_before[scrape.broker] += 1
        of_file = () if scrape.broker is None else ((_BROKER[0], str(scrape.broker)),)
        for where, name, labels, time, value in scrape.samples:
            if of_file and not any(label in _BY_BROKER for label, _ in labels):
                labels += of_file
            if time is None:
                before = joined.get((name, labels))
                if seconds is None and before is not None and before.source != scrape.source:
                    raise InputError(
                        f"{where}: the sample has no time, and is in {before.source} too; right is"
                        " a time behind the value, or the time between the files (--seconds,"
                        " seconds=), or which broker each file is of (--instances, instances=)"
                    )
                time = number * (seconds or 0.0)
            measure = _measure(name)
            assert measure is not None
            one = joined.setdefault(
                (name, labels), _Series(scrape.source, where, measure, dict(labels), {})
            )
            if one.samples.setdefault(time, value) != value:
                raise InputError(
                    f"{where}: {name} has the values {one.samples[time]:g} and {value:g} at one"
                    " moment; right is one: files of several brokers need a label that tells them"
                    " apart, as instance"
                )
    return [*joined.values()]


def _refuse_clusters(source: str, series: Sequence[_Series]) -> None:
    """A load is of one cluster."""
    for label in _CLUSTER:
        values = sorted({one.labels[label] for one in series if one.labels.get(label)})
        if len(values) > 1:
            raise InputError(
                f"{source}: the series are of several clusters, {label} {abbreviate(values, 3)};"
                " right is one"
            )


class _Rates:
    """The value of each series: of a counter its mean rate, of a size the latest."""

    def __init__(self, source: str, series: Sequence[_Series]) -> None:
        self.source = source
        self.alone, self.fallen = [], list[str]()
        rated: list[tuple[_Series, float]] = []
        self.span = self.end = 0.0
        for one in series:
            times = sorted(one.samples)
            values = [one.samples[time] for time in times]
            if not one.measure.counter:
                latest = one.measure.column in ("disk_bytes", "replicated_bytes")
                rated.append((one, values[-1] if latest else math.fsum(values) / len(values)))
            elif len(times) == 1:
                self.alone.append(one.where)
            elif any(later < earlier for earlier, later in pairwise(values)):
                self.fallen.append(one.where)
            else:
                rated.append((one, (values[-1] - values[0]) / (times[-1] - times[0])))
                self.span = max(self.span, times[-1] - times[0])
                self.end = max(self.end, times[-1])
        if not rated:
            raise self._nothing()
        counted = {
            one.measure.column for one, _ in rated
            if one.measure.counter and not one.measure.largest
        }
        windows = {
            one.measure.window for one, _ in rated
            if one.measure.window and one.measure.column not in counted
        }
        chosen = next((name for name in _RATES.values() if name in windows), "")
        self.values = [
            (one, value) for one, value in rated
            if not one.measure.window
            or (one.measure.window == chosen and one.measure.column not in counted)
        ]
        self.window = self._window(chosen)

    def _nothing(self) -> InputError:
        if self.fallen:
            return InputError(
                f"{self.source}: every counter falls ({len(self.fallen)} of them); right are files"
                " in the order in which they were taken, without a restart between them"
            )
        if self.alone:
            return InputError(
                f"{self.source}: {plural(len(self.alone), 'counter')} with one sample only; right"
                " are two: two files, or a query over a range"
            )
        return InputError(f"{self.source}: no series of a load; right are {_KNOWN}")

    def _window(self, chosen: str) -> str | None:
        if not self.span:
            return f"mean of {chosen}" if chosen else None
        until = ""
        if _YEAR_2001 < self.end < _YEAR_9999:
            until = f" until {datetime.fromtimestamp(self.end, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"mean of {self.span:g} s{until}"

    def notes(self) -> list[str]:
        """What was left out."""
        notes = []
        if self.fallen:
            notes.append(
                f"{self.source}: left out: {plural(len(self.fallen), 'counter')} that fell, as"
                f" after a restart ({abbreviate(self.fallen, 3)})"
            )
        if self.alone:
            notes.append(
                f"{self.source}: left out: {plural(len(self.alone), 'counter')} of one sample"
                f" ({abbreviate(self.alone, 3)})"
            )
        return notes


def _brokers_of(
    source: str, values: Sequence[tuple[_Series, float]], instances: Mapping[str, int],
    notes: list[str],
) -> dict[Labels, int]:
    """Broker id of each series, by its labels; of none where some instance has no id."""
    ids: dict[Labels, int] = {}
    unknown: set[str] = set()
    nodes: set[str] = set()
    by_pod = False
    for one, _ in values:
        if one.measure.largest and not _label(one.labels, (*_BROKER, *_INSTANCE)):
            continue
        labels = tuple(one.labels.items())
        mapped = [one.labels[key] for key in _INSTANCE if one.labels.get(key) in instances]
        named = re.fullmatch(r"\d{1,10}", _label(one.labels, _BROKER) or "")
        pod = re.search(r"-(\d{1,9})$", _label(one.labels, _POD) or "")
        if mapped:
            ids[labels] = whole("instances", instances[mapped[0]], 0, MAX_INT)
        elif named:
            ids[labels] = int(named[0])
        elif pod:
            ids[labels], by_pod = int(pod[1]), True
        elif one.measure.column in _OF_BROKERS:
            nodes.add(_label(one.labels, _INSTANCE) or "no instance")
        elif one.measure.window or one.measure.counter or _label(one.labels, _INSTANCE):
            # A gauge under a name of kfast may be a sum over brokers; others are of a process.
            unknown.add(_label(one.labels, _INSTANCE) or "no instance")
    if nodes:
        notes.append(
            f"{source}: CPU is left out of {plural(len(nodes), 'node')} whose broker id is not"
            f" known: {abbreviate(sorted(nodes), 3)}{_OVERRIDE}"
        )
    if unknown:
        notes.append(
            f"{source}: the broker id is not known of {plural(len(unknown), 'instance')}"
            f" ({abbreviate(sorted(unknown), 3)}): what brokers report is added up by topic"
            f"{_OVERRIDE}"
        )
        return {}
    if by_pod:
        notes.append(f"{source}: a broker's id is the number at the end of its pod's name")
    return ids


def _key(one: _Series, brokers: Mapping[Labels, int]) -> _Key | None:
    """What a series is of; None for time in which a CPU is idle."""
    labels, measure = one.labels, one.measure
    broker = brokers.get(tuple(labels.items()))
    if labels.get("mode") in _IDLE:
        return None
    topic, partition = _label(labels, _TOPIC), _label(labels, _PARTITION)
    if measure.column in _OF_BROKERS:
        return _Key(None, None, broker)
    if partition is not None and (topic is None or not re.fullmatch(r"\d{1,10}", partition)):
        raise InputError(
            f"{one.where}: found partition {quote(partition)} of topic {quote(topic or '')}; right"
            " is a number, and a topic"
        )
    number = None if partition is None else int(partition)
    if number is not None and number > MAX_INT:
        raise InputError(f"{one.where}: found partition {number}; right is at most {MAX_INT}")
    if measure.largest and measure.column in ("msgs_in", "replicated_bytes"):
        broker = None  # Of the topic, whoever tells it.
    return _Key(topic, number, broker)


def _compare_totals(
    source: str, totals: Mapping[str, int], cells: Mapping[_Key, _Cells], warnings: list[str]
) -> None:
    """Warn where sums over topics are not what brokers without an id report of all topics."""
    for column, total in totals.items():
        over_topics = sum(
            row[column][0] for key, row in cells.items()
            if column in row and key.topic is not None and key.partition is None
        )
        if over_topics and disagree(over_topics, total):
            unit = LOAD_UNITS[column]
            warnings.append(
                f"{source}: {column} is {over_topics // unit.factor} {unit.name} over all topics,"
                f" and {total // unit.factor} {unit.name} by the series without a topic: more than"
                " 5 % apart"
            )


def _columns(cells: Mapping[_Key, _Cells]) -> dict[str, pa.Array]:
    """Columns of `schema.LOAD`."""
    keys, rows = [*cells], [*cells.values()]
    places = [next(iter(row.values()))[1] for row in rows]
    columns: dict[str, pa.Array] = {
        "topic": pa.array([key.topic for key in keys], pa.string()).dictionary_encode(),
        "partition": pa.array([key.partition for key in keys], pa.int32()),
        "broker_id": pa.array([key.broker for key in keys], pa.int32()),
    }
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name][0] if name in row else None for row in rows]
        columns[LOAD_UNITS[name].column] = pa.array(values, pa.int64())
    check_load(columns, places.__getitem__)
    return columns
