"""Executors that see a packed environment and no checkout, as docs/spark-deployment.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.support.long_tests import only_whole

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WHEEL = "KFAST_TEST_WHEEL"
"""Environment variable: a wheel that is made already."""

SECONDS = 120


def needed(names):
    """Give installed distributions and all that they need."""
    seen = set()
    while names:
        installed = distribution(names.pop())
        if installed.name not in seen:
            seen.add(installed.name)
            requirements = map(Requirement, installed.requires or ())
            names += [r.name for r in requirements if not r.marker or r.marker.evaluate()]
            yield installed


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Pack an environment with a wheel of kfast and what it needs, without the network."""
    venv_pack = pytest.importorskip("venv_pack", reason="venv-pack is missing")
    folder = tmp_path_factory.mktemp("made")
    wheel = os.environ.get(WHEEL)
    if wheel is None:
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
             "-w", folder, ROOT], check=True)
        [wheel] = folder.glob("kfast-*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    site = Path(sysconfig.get_path(
        "purelib", vars={"base": str(environment), "platbase": str(environment)}
    ))
    for installed in needed(["numpy", "pyarrow", "msgspec", "click", "rich", "pandas"]):
        for file in installed.files:
            if ".." not in file.parts and installed.locate_file(file).exists():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(installed.locate_file(file), site / file)
    subprocess.run(
        [sys.executable, "-m", "pip", "-q", "--python", environment / "bin" / "python", "install",
         "--no-index", "--no-deps", wheel], check=True)
    packed = folder / "environment.tar.gz"
    venv_pack.pack(prefix=str(environment), output=str(packed), compress_level=1)
    return packed


@pytest.fixture
def driver(archive, tmp_path):
    """Give a folder to start from, with the archive beside it unpacked, and its environment."""
    import py4j
    import pyspark

    home = tmp_path / "home"
    (home / "pyspark").mkdir(parents=True)
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / "pyspark" / path.name).symlink_to(path)
    (home / "py4j").symlink_to(Path(py4j.__file__).parent)
    shutil.copy(archive, tmp_path)
    shutil.copy(ROOT / "tests/support/deployed_run.py", tmp_path)
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "environment", filter="fully_trusted")
    names = {"PATH", "HOME", "JAVA_HOME"} & set(os.environ)
    environ = {name: os.environ[name] for name in names}
    return tmp_path, environ | {
        "SPARK_HOME": str(home / "pyspark"), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(home),
        "PYSPARK_PYTHON": "./environment/bin/python",
    }


@contextmanager
def daemon(name, arguments, environ, log):
    """Run a part of a standalone cluster."""
    command = [f"{environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    with log.open("w") as file, subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments], env=environ,
        stdout=file, stderr=file,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def master_of(log):
    """Wait for the address of the master."""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        address = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        if address:
            return address[1]
        time.sleep(0.2)
    pytest.fail(f"the master did not start: {log.read_text()}")


def check(driver, master):
    """Run a job with the archive: nothing of the checkout is imported anywhere."""
    folder, environ = driver
    done = subprocess.run(
        ["./environment/bin/python", "deployed_run.py", master], cwd=folder, env=environ,
        capture_output=True, text=True, timeout=2 * SECONDS, check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    places = re.findall(r"^(driver|executor) (.*)$", done.stdout, re.M)
    executors = [path for role, path in places if role == "executor"]
    assert len(executors) == 2
    assert all("/environment/lib/python" in path for _, path in places)
    assert not [path for _, path in places if path.startswith(str(ROOT))]
    assert "sweep True" in done.stdout
    assert "source 5000" in done.stdout


def test_a_packed_environment_on_a_standalone_cluster_of_two_workers(driver):
    folder, environ = driver
    alone = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    with ExitStack() as running:
        log = folder / "master.log"
        running.enter_context(daemon("master.Master", ["--port", "0"], alone, log))
        master = master_of(log)
        for number in range(2):
            running.enter_context(daemon(
                "worker.Worker",
                ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), master],
                alone, folder / f"worker-{number}.log",
            ))
        check(driver, master)


@only_whole
def test_a_packed_environment_on_a_local_cluster(driver):
    check(driver, "local-cluster[2,1,1024]")
