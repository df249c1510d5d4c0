"""Settings of topics and brokers as configurations name them, in the columns that kfast has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kfast import schema
from kfast.arguments import config_boolean, config_count
from kfast.errors import ArgumentError, InputError

__all__ = ["LOG_SETTINGS", "default_columns", "log_settings", "setting_columns"]

LOG_SETTINGS = frozenset({
    "cleanup.policy", "retention.ms", "retention.bytes", "local.retention.ms",
    "local.retention.bytes", "segment.ms", "segment.bytes", "remote.storage.enable",
})
"""Settings of a topic that say how large its logs become."""
_COLUMNS = {
    "unclean.leader.election.enable": ("unclean_leader_election", config_boolean),
    "min.insync.replicas": ("min_insync_replicas", config_count),
}


def setting_columns(
    name: str, topics: Sequence[str], settings: Mapping[str, Mapping[str, str]]
) -> dict[str, pa.Array]:
    """Columns of the topics table that settings fill.

    Parameters
    ----------
    name : str
        What messages call the file.
    topics : sequence of str
        The rows of the table.
    settings : mapping of str to mapping of str to str
        Settings of topics that have any.

    Raises
    ------
    InputError
        A value that the setting cannot have.
    """
    return {
        column: pa.array(
            [_value(f"{name}: topic {topic}", settings.get(topic, {}), key) for topic in topics],
            schema.TOPICS_SCHEMA.field(column).type,
        )
        for key, (column, _) in _COLUMNS.items()
    }


def default_columns(name: str, settings: Mapping[str, str]) -> dict[str, pa.Array]:
    """Columns of the cluster table that the brokers' default settings fill."""
    values = {column: _value(name, settings, key) for key, (column, _) in _COLUMNS.items()}
    return {
        f"default_{column}": pa.array(
            [value], schema.CLUSTER_SCHEMA.field(f"default_{column}").type
        )
        for column, value in values.items() if value is not None
    }


def _value(where: str, settings: Mapping[str, str], key: str) -> int | None:
    """A setting's value; None where it is not set."""
    if key not in settings:
        return None
    try:
        return _COLUMNS[key][1](f"{where}: {key}", settings[key])
    except ArgumentError as error:
        raise InputError(str(error)) from error


def log_settings(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Of the settings of topics, those that say how large logs become."""
    chosen = {
        topic: {key: value for key, value in of_topic.items() if key in LOG_SETTINGS}
        for topic, of_topic in settings.items()
    }
    return {topic: of_topic for topic, of_topic in chosen.items() if of_topic}
