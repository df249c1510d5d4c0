"""`kfast timeline`: text, JSON and Arrow say the same."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import kfast
from tests.support.cli_run import run


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_text_json_and_arrow_say_the_same(tmp_path, controller):
    state = kfast.generate(brokers=6, partitions=60, racks=3, controller=controller)
    cluster, rows = tmp_path / "cluster.arrow", tmp_path / "rows.arrow"
    kfast.write(state, cluster)
    row = kfast.timeline(state, [3], samples=20).summary.to_pylist()[0]
    asked = ["timeline", str(cluster), "--brokers", "3", "--samples", "20"]
    text = run(*asked).output
    assert f"{row['led_max_us'] / 1e6:.3f} s" in text
    assert json.loads(run(*asked, "--format", "json").output)["summary"] == row
    run(*asked, "-o", str(rows))
    with pa.OSFile(str(rows)) as file, pa.ipc.open_file(file) as table:
        assert table.read_all().to_pylist() == [row]


def test_what_fails_must_be_given(tmp_path):
    cluster = tmp_path / "cluster.arrow"
    kfast.write(kfast.generate(brokers=3, partitions=6), cluster)
    refused = run("timeline", str(cluster), code=2)
    right = "give what fails: --brokers IDS, --racks NAMES, --controller-fails, or --every K"
    assert right in " ".join(refused.output.split())


def test_a_cost_whose_sums_could_overflow_is_refused_by_name():
    state = kfast.generate(brokers=6, partitions=200_000)
    with pytest.raises(kfast.ArgumentError, match="epoch_sync is up to 1000000000000 ns"):
        kfast.timeline(state, [3], params={"epoch_sync": "1000s"})
