"""What the commands take: how arguments are read, and the options that commands share.

One spelling has one meaning everywhere. An option that takes a list takes it with commas, or is
given several times, or both: `--brokers 1,2`, `--brokers 1 --brokers 2`, `--brokers 4-9`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import click

from kfast.analysis.conditions import OPERATORS, Condition, parse_condition
from kfast.cli.output import progress_bar
from kfast.errors import ArgumentError, InputError
from kfast.io import SourceTables, parse_brokers, read, read_tables
from kfast.io.file_systems import RemotePath, parse_path
from kfast.report import LISTS
from kfast.report.pictures import PICTURE_ENDINGS, check_picture
from kfast.report.writing import ENDINGS, KINDS, list_endings
from kfast.schema import CONTROLLERS
from kfast.state import ClusterState
from kfast.state.cluster import with_controller
from kfast.state.settings import override_settings

__all__ = [
    "Command", "FilePath", "InputName", "Inputs", "ListType", "all_options", "broker_ids",
    "broker_option", "cluster_options", "conditions_option", "controller_option",
    "controller_options", "down_option", "input_text", "list_option", "lists_option", "names",
    "number_option", "order_option", "output_options", "pair_options", "plot_option", "seed_option",
    "setting_option", "take_cluster", "take_controller", "take_pair", "take_tables",
    "threads_option", "top_option", "topic_partitions", "verbose_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])
Item = TypeVar("Item")
Inputs: TypeAlias = tuple[str, ...]
"""What a command reads a cluster from: files that are merged."""

_IDS = re.compile(r"([0-9]{1,10})(?:\s*-\s*([0-9]{1,10}))?")
_MOST = 2**31
"""Broker ids and partition numbers are below this."""

_MOST_IN_RANGE = 1 << 16
"""Ids of the longest range: a cluster has fewer brokers."""


# --- types ---------------------------------------------------------------------------------------


class ListType(click.ParamType[tuple[Item, ...]], Generic[Item]):
    """The one type of all options that take a list: items with commas between them.

    Parameters
    ----------
    name : str
    parse : callable
        Reads one item, which may stand for several; raises `ArgumentError`.
    """

    def __init__(self, name: str, parse: Callable[[str], Iterable[Item]]) -> None:
        self.name = name
        self.parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Item, ...]:
        """Read a list."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        if "" in parts:
            self.fail(f"{value!r} has an empty item; right is a list such as a,b", param, ctx)
        try:
            return tuple(chain.from_iterable(self.parse(part) for part in parts))
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


class FilePath(click.Path):
    """A file by its name, which is not empty: an empty one would be the current folder."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Read a name; one of another file system is no `Path`, which would drop a slash."""
        if not value:
            self.fail("the name of the file is empty", param, ctx)
        if "\0" in str(value):
            self.fail(f"{value!r} is no name of a file", param, ctx)
        place = parse_path(value)
        if isinstance(place, RemotePath):
            return place
        return super().convert(value, param, ctx)


class InputName(click.Path):
    """An input by its name as it is: a shell completes it as a file's, what reads it checks it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None  # noqa: ARG002
    ) -> Any:
        """Take the name."""
        return value


def broker_ids(text: str) -> Iterable[int]:
    """A broker id, or a range of ids."""
    match = _IDS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, _MOST)
    if last >= _MOST:
        raise ArgumentError(f"{text!r} is not a broker id; right is a list such as 3,7 or 4-9")
    if not 0 <= last - first < _MOST_IN_RANGE:
        raise ArgumentError(
            f"{text!r} is not a range of brokers; right is from the lower to the higher id, and at"
            f" most {_MOST_IN_RANGE} of them"
        )
    return range(first, last + 1)


def names(text: str) -> Iterable[str]:
    """A name as it is."""
    return (text,)


def _counts(text: str) -> Iterable[int]:
    """A number of brokers."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ArgumentError(f"{text!r} is not a number of brokers; right is 2 or 1,2,3")
    return (int(text),)


def topic_partitions(text: str) -> Iterable[tuple[str, int]]:
    """A partition as Kafka's tools write it: the number stands behind the last hyphen."""
    topic, _, number = text.rpartition("-")
    if not topic or not re.fullmatch(r"[0-9]{1,10}", number) or int(number) >= _MOST:
        raise ArgumentError(f"{text!r} is not topic-partition, such as orders-7")
    return ((topic, int(number)),)


def _default(text: str) -> Iterable[tuple[str, str]]:
    """A default of the brokers, as name=value."""
    name, _, value = text.partition("=")
    if not name.strip() or not value.strip():
        raise ArgumentError(f"{text!r} is not of the form min.insync.replicas=2")
    return ((name.strip(), value.strip()),)


def _list_name(text: str) -> Iterable[str]:
    """A list of partitions."""
    if text not in LISTS:
        raise ArgumentError(f"{text!r} is no list; these are: {', '.join(LISTS)}")
    return (text,)


def _condition(metrics: Mapping[str, str], text: str) -> Iterable[Condition]:
    """A condition on one of some metrics."""
    return (parse_condition(text, metrics),)


# --- options that commands share -----------------------------------------------------------------


def _join(_ctx: click.Context, _param: click.Parameter, lists: Sequence[tuple[Item, ...]]) -> Any:
    """All items of an option that was given several times, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


def _append(_ctx: click.Context, _param: click.Parameter, lists: Sequence[tuple[Item, ...]]) -> Any:
    """All items of an option that was given several times."""
    return tuple(chain.from_iterable(lists))


def list_option(
    *names: str, parse: Callable[[str], Iterable[Any]], metavar: str, help: str,
    separate: bool = False, repeats: bool = False, required: bool = False,
) -> Callable[[Command], Command]:
    """An option that takes a list; with `separate`, the lists stay apart.

    With `repeats` an item may stand several times.
    """
    return click.option(
        *names, type=ListType(metavar.lower(), parse), multiple=True, metavar=metavar, help=help,
        callback=None if separate else _append if repeats else _join, required=required,
    )


def number_option(
    *names: str, help: str, type: Any = int, metavar: str = "N", **settings: Any
) -> Callable[[Command], Command]:
    """An option that takes a number; `--help` shows its default."""
    return click.option(
        *names, type=type, metavar=metavar, show_default="default" in settings, help=help,
        **settings,
    )


def all_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Put several options on a command; `--help` lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _parse_added(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> Mapping[int, str | None] | None:
    return parse_brokers(",".join(texts)) if texts else None


def cluster_options() -> Callable[[Command], Command]:
    """Options of the commands that read a cluster."""
    return all_options(
        click.argument("sources", type=InputName(), metavar="INPUT...", nargs=-1, required=True),
        _reading_options(),
        _moment_option("--at", "The cluster"),
        controller_options("as INPUT tells"),
    )


def pair_options() -> Callable[[Command], Command]:
    """Options of the command that reads a cluster at two moments."""
    return all_options(
        click.argument("old", type=InputName(), metavar="OLD"),
        click.argument("new", type=InputName(), metavar="NEW"),
        _reading_options(),
        _moment_option("--at-old", "OLD"),
        _moment_option("--at-new", "NEW"),
        controller_options("as OLD and NEW tell"),
    )


def _moment_option(name: str, cluster: str) -> Callable[[Command], Command]:
    """Option that selects a moment of a metadata log."""
    return click.option(
        name, callback=_parse_moment, metavar="OFFSET|TIME",
        help=f"{cluster} as it was at this offset of a metadata log (records before it "
        "count), or at this time: 8456 or 2026-11-20T02:06:24Z.",
    )


def _reading_options() -> Callable[[Command], Command]:
    """Options that say of a cluster what its source does not."""
    return all_options(
        click.option(
            "--brokers-file", type=FilePath(), metavar="CSV",
            help="Racks of the brokers, which a describe text lacks: a CSV with the columns "
            "broker_id,rack and perhaps registered.",
        ),
        click.option(
            "--add-brokers", multiple=True, callback=_parse_added, metavar="BROKERS",
            help="Brokers that INPUT does not name, perhaps with a rack: 113:rack=b,114.",
        ),
        list_option(
            "--default", "defaults", parse=_default, metavar="NAME=VALUE",
            help="A default of the brokers, such as min.insync.replicas=2 or "
            "unclean.leader.election.enable=true.",
        ),
        list_option(
            "--up", parse=broker_ids, metavar="IDS",
            help="Brokers that are up although they lead nothing and are in no ISR: 3,4.",
        ),
        click.option(
            "--command-config", type=FilePath(), metavar="PROPERTIES",
            help="Properties of Kafka's own clients, such as security.protocol and "
            "sasl.jaas.config, for an INPUT that is kafka://host:9092.",
        ),
    )


def controller_options(default: str) -> Callable[[Command], Command]:
    """Options that say which controller runs the cluster."""
    return all_options(
        controller_option(
            f"Controller that is simulated: {_span('kraft')}, or {_span('zk')} for ZooKeeper mode."
            f"  [default: {default}]"
        ),
        click.option(
            "--elr", type=click.Choice(("on", "off")),
            help="Eligible leader replicas (KIP-966) of a KRaft controller, from 4.0 on.  [default:"
            f" {default}]",
        ),
    )


def controller_option(help: str) -> Callable[[Command], Command]:
    """Option that names a controller; `--profile` is another name of it."""
    return click.option(
        "--controller", "--profile", "controller", metavar="NAME", callback=_parse_controller,
        help=help,
    )


def _parse_controller(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> str | None:
    """A controller's name; of a release alone, such as 2.7, the older kind that it has."""
    names = (f"{kind}-{text}" for kind in ("zk", "kraft"))
    return next((name for name in names if name in CONTROLLERS), text)


def _span(kind: str) -> str:
    """The oldest and the newest controller of a kind."""
    known = [name for name in CONTROLLERS if name.startswith(kind)]
    return f"{known[0]} to {known[-1]}"


def _parse_moment(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> int | datetime | None:
    """An offset, or a time; one without a zone is UTC."""
    if text is None or re.fullmatch(r"[0-9]{1,18}", text):
        return None if text is None else int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither an offset such as 8456 nor a time such as 2026-11-20T02:06:24Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def input_text(sources: Inputs) -> str:
    """What answers and messages call the files that a cluster is read from."""
    return ", ".join(sources)


def take_cluster(sources: Inputs, options: dict[str, Any]) -> ClusterState:
    """Read a cluster; take `cluster_options` and `setting_option` out of a command's options."""
    settings, give_controller = options.pop("settings", ()), take_controller(options)
    state = give_controller(_read(read, sources, options))
    if not state.n_brokers:
        raise InputError(
            f"{input_text(sources)}: no broker is in it, so there is nothing to ask; right is an "
            "export of a cluster that has run, such as the folder __cluster_metadata-0 of a "
            "controller"
        )
    return override_settings(state, settings) if settings else state


def take_pair(old: str, new: str, options: dict[str, Any]) -> tuple[ClusterState, ClusterState]:
    """Read a cluster at two moments; take `pair_options` out of a command's options."""
    moments = options.pop("at_old"), options.pop("at_new")
    sources = zip((old, new), moments, strict=True)
    before, after = (take_cluster((source,), {**options, "at": at}) for source, at in sources)
    options.clear()
    return before, after


def take_controller(options: dict[str, Any]) -> Callable[[ClusterState], ClusterState]:
    """Take `controller_options` out of a command's options: what gives a cluster its controller."""
    name, elr = options.pop("controller"), options.pop("elr")
    if name is None and elr is None:
        return lambda state: state
    return lambda state: with_controller(
        state, name or state.controller, elr=None if elr is None else elr == "on"
    )


def take_tables(sources: Inputs, options: dict[str, Any]) -> SourceTables | ClusterState:
    """Read the tables of a cluster, and take `cluster_options` out of a command's options.

    With another controller than INPUT tells it is a state, which that controller has filled in.
    """
    if options["controller"] is not None or options["elr"] is not None:
        return take_cluster(sources, options)
    take_controller(options)
    tables: SourceTables = _read(read_tables, sources, options)
    return tables


def _read(reader: Any, sources: Inputs, options: dict[str, Any]) -> Any:
    """Read; a large file shows a progress bar on a terminal."""
    defaults: dict[str, str] = {}
    for name, value in options.pop("defaults"):
        if defaults.setdefault(name, value) != value:
            raise ArgumentError(f"--default {name} is given as {defaults[name]} and as {value}")
    arguments = {name: options.pop(name) for name in ("brokers_file", "add_brokers", "up")}
    if (at := options.pop("at")) is not None:
        arguments["at"] = at
    if (command_config := options.pop("command_config")) is not None:
        arguments["command_config"] = command_config
    with progress_bar("Reading", *sources) as progress:
        return reader(*sources, defaults=defaults, progress=progress, **arguments)


def broker_option(help: str) -> Callable[[Command], Command]:
    """Option that selects brokers."""
    return list_option("--brokers", parse=broker_ids, metavar="IDS", help=help)


def _parse_settings(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, str, str]]:
    """Settings as REGEX:NAME=VALUE; the expression may have colons and equals signs."""
    overrides = []
    for text in texts:
        regex, _, setting = text.rpartition(":")
        name, _, value = setting.partition("=")
        if not regex or not value.strip():
            raise click.BadParameter(
                f"{text!r} is not REGEX:NAME=VALUE, such as '.*:min.insync.replicas=2'"
            )
        overrides.append((regex, name.strip(), value.strip()))
    return overrides


def setting_option() -> Callable[[Command], Command]:
    """Option that changes settings of topics before anything else happens."""
    return click.option(
        "--set", "settings", multiple=True, callback=_parse_settings, metavar="REGEX:NAME=VALUE",
        help="Give the topics whose name matches another min.insync.replicas or "
        "unclean.leader.election.enable, as in '.*:min.insync.replicas=2'. May be given more than "
        "once; the last one that matches a topic counts.",
    )


def order_option() -> Callable[[Command], Command]:
    """Option that says in which order a KRaft controller fences brokers that fail together."""
    return list_option(
        "--order", parse=broker_ids, metavar="IDS",
        help="Order in which a KRaft controller fences brokers that fail together: 3,1,2. Those "
        "not named come last.  [default: by ascending id]",
    )


def down_option(help: str) -> Callable[[Command], Command]:
    """Option that says how many brokers fail at random."""
    return list_option("--down", parse=_counts, metavar="NUMBERS", help=help)


def seed_option(help: str) -> Callable[[Command], Command]:
    """Option of the commands that draw anything at random."""
    return number_option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, help=help)


def verbose_option() -> Callable[[Command], Command]:
    """Option of the commands that have more to say than is usually needed."""
    return click.option("-v", "--verbose", is_flag=True, help="Show the requests in full.")


def threads_option() -> Callable[[Command], Command]:
    """Option of the commands whose work can be shared by threads."""
    return number_option("--threads", type=click.IntRange(1, 64), default=1,
                         help="Threads to use; the answer does not depend on it.")


def plot_option(what: str, option: str = "--plot") -> Callable[[Command], Command]:
    """Option that draws a picture; a name that is not right is refused before any work is done."""
    return click.option(
        option, type=FilePath(), metavar="FILE", callback=_check_plot,
        help=f"Draw a picture to this file: {', '.join(PICTURE_ENDINGS)}. {what}.",
    )


def _check_plot(_ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        check_picture(path, param.opts[0])
    return path


def top_option(what: str, default: int = 10) -> Callable[[Command], Command]:
    """Option that says how much is listed."""
    return number_option("--top", type=click.IntRange(0), default=default,
                         help=f"How many {what} to list, the worst first.")


def lists_option() -> Callable[[Command], Command]:
    """Option that lists partitions by name."""
    return list_option(
        "--list", "lists", parse=_list_name, metavar="WHAT",
        help=f"List every partition that has this, by name: {' or '.join(LISTS)}.",
    )


def output_options(
    tables: Sequence[str], metrics: Mapping[str, str], *, to_file: bool = True
) -> Callable[[Command], Command]:
    """Options of the commands that answer: in which form, where to, and when it is a failure.

    Without `to_file` answers go to standard output.
    """
    by_name = f"as the name in -o ends ({list_endings(ENDINGS)}), else " if to_file else ""
    all_with_file = "csv with -o: all; " if to_file else ""
    shared = [
        click.option(
            "--format", "kind", type=click.Choice(KINDS),
            help=f"Form of the answer (table, json), or of its tables.  [default: {by_name}table]",
        ),
        click.option(
            "--table", type=click.Choice(tuple(tables)),
            help="Which table csv, json, parquet and arrow hold.  [default: "
            f"{tables[0]}; {all_with_file}json: the answer itself]",
        ),
    ]
    if to_file:
        shared.insert(1, click.option(
            "-o", "--output", type=FilePath(), metavar="FILE",
            help="Write to this file, whole or not at all. csv is one file for each table.",
        ))
    if metrics:
        shared.append(conditions_option(metrics))
    return all_options(*shared)


def conditions_option(metrics: Mapping[str, str]) -> Callable[[Command], Command]:
    """Option that says when an answer is a failure."""
    return list_option(
        "--fail-on", "conditions", parse=partial(_condition, metrics), metavar="CONDITION",
        help="Exit with 4 if this holds, as in 'offline>0'; one that holds is enough. Metrics: "
        f"{', '.join(metrics)}. Operators: {' '.join(OPERATORS)}.",
    )
