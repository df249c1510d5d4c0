"""Draw the pictures of the README from a real run: `python -m docs.pictures`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from kfast import read
from kfast.analysis.broker_failure import fail_brokers
from kfast.report.failure import failure_answer

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER.parent / "bench_data"
COMMAND = "kfast fail describe.txt --brokers-file brokers.csv --racks a --top 5"


def failure_picture() -> str:
    """The failure of rack a of the cluster in bench_data, as SVG."""
    text = (DATA / "describe.txt").read_bytes()
    state = read(("describe.txt", text), brokers_file=DATA / "brokers.csv")
    inside = [
        broker
        for broker, rack in zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True)
        if rack == "a"
    ]
    failure = fail_brokers(state, inside)
    answer = failure_answer("describe.txt", state, failure, racks=("a",), top=5)
    console = Console(
        record=True,
        width=82,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    answer.draw(console)
    return console.export_svg(title=COMMAND, unique_id="kfast")


if __name__ == "__main__":
    (FOLDER / "fail.svg").write_text(failure_picture())
