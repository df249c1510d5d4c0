"""An S3 server in this process, which may kill a process that writes to it."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
import urllib.request
from contextlib import contextmanager

import pytest

from kfast.io import file_systems
from kfast.io.file_systems import RemotePath

WRITES = ("PUT", "POST", "DELETE")


class S3Server:
    """Buckets in memory, by moto.

    Attributes
    ----------
    environment : dict
        What Arrow needs to find it.
    writes : int
        Requests that changed something.
    dies_at, victim : int
        The process that is killed at the write of this number, before or after it is done.
    """

    def __init__(self) -> None:
        pytest.importorskip("moto", reason="the S3 server of tests is missing: pip install moto")
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            create_backend_app,
        )
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.writes, self.dies_at, self.victim = 0, -1, 0

    def _answer(self, environ, start_response):
        dies = False
        if environ["REQUEST_METHOD"] in WRITES:
            with self._lock:
                dies = self.writes == self.dies_at
                self.writes += 1
        if dies and self.dies_at % 2:
            os.kill(self.victim, signal.SIGKILL)
        answer = self._application(environ, start_response)
        if dies and not self.dies_at % 2:
            os.kill(self.victim, signal.SIGKILL)
        return answer

    def new_bucket(self) -> RemotePath:
        """Make a bucket of its own."""
        name = f"bucket-{next(self._numbers)}"
        url = f"{self.environment['AWS_ENDPOINT_URL']}/{name}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
        return RemotePath(f"s3://{name}", "")

    @contextmanager
    def running(self):
        """Serve, and let this process find the server."""
        self._thread.start()
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.environment.items():
                patched.setenv(name, value)
            file_systems.open_store.cache_clear()
            yield self
        file_systems.open_store.cache_clear()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def upload(folder, place: RemotePath) -> None:
    """Copy a folder of the local file system."""
    for path in folder.rglob("*"):
        if path.is_file():
            with (place / path.relative_to(folder).as_posix()).writing() as file:
                file.write(path.read_bytes())


def contents(place: RemotePath) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.files_below()}
