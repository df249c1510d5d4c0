"""Znodes of a running ensemble, read through kazoo: those that a dump of it has.

Source: kfast/io/zookeeper/znodes.py; kazoo 2.11, kazoo/client.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfast.errors import InputError, require_extra
from kfast.io.source_tables import SourceTables
from kfast.io.zookeeper.znodes import Znode, tables_of_znodes

__all__ = ["read_ensemble"]

PORT = 2181
_TIMEOUT_S = 15.0
_PIPELINED = 2000
"""Requests that are sent before the first answer is awaited."""
_SINGLE = ("/controller", "/controller_epoch", "/admin/reassign_partitions")
_FOLDERS = (
    "/brokers/ids", "/brokers/topics", "/config/topics", "/config/brokers", "/admin/delete_topics",
)


def read_ensemble(address: str, servers: list[tuple[str, int]], chroot: str) -> SourceTables:
    """Read the cluster whose znodes are below a path.

    Parameters
    ----------
    address : str
        What messages call it.
    servers : list of (str, int)
    chroot : str
        Empty, or a path.

    Raises
    ------
    InputError
        Nobody answers in time, a znode may not be read, or there is no cluster.
    """
    require_extra("live", address)
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    hosts = ",".join(f"{host}:{port}" for host, port in servers)
    client = KazooClient(hosts=hosts, read_only=True, timeout=_TIMEOUT_S)
    try:
        client.start(timeout=_TIMEOUT_S)
        return tables_of_znodes(address, _znodes(client, chroot.rstrip("/")))
    except KazooTimeoutError as error:
        raise InputError(
            f"{address}: does not answer as ZooKeeper in {_TIMEOUT_S:.0f} s ({error})"
        ) from error
    except KazooException as error:
        detail = f" ({error})" if str(error) else ""
        raise InputError(f"{address}: {type(error).__name__}{detail}") from error
    finally:
        client.stop()
        client.close()


def _znodes(client: Any, root: str) -> dict[str, Znode]:
    """What the znodes of a cluster hold, by path."""
    topics = f"{root}/brokers/topics"
    children = dict(_each(client.get_children_async, [root + folder for folder in _FOLDERS]))
    paths = [f"{folder}/{name}" for folder, names in children.items() for name in names]
    lists = [f"{topics}/{topic}/partitions" for topic in children.get(topics, ())]
    for path, partitions in _each(client.get_children_async, lists):
        paths += [f"{path}/{partition}/state" for partition in partitions]
    paths += [root + path for path in _SINGLE]
    return {
        path: Znode(data, stat.version, stat.czxid)
        for path, (data, stat) in _each(client.get_async, paths)
    }


def _each(ask: Any, paths: Iterable[str]) -> Iterable[tuple[str, Any]]:
    """Answers for paths, in order, without those that do not exist, or no longer."""
    from kazoo.exceptions import NoNodeError

    listed = [*paths]
    for start in range(0, len(listed), _PIPELINED):
        batch = listed[start : start + _PIPELINED]
        pending = [(path, ask(path)) for path in batch]
        for path, answer in pending:
            try:
                yield path, answer.get(timeout=_TIMEOUT_S)
            except NoNodeError:
                continue
