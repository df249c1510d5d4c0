"""Kafka's own classes and kfast on the same random events; docs/lockstep.md."""

from __future__ import annotations

import pytest

from tests.kafka.kafka_classes import MissingToolError, build
from tests.kafka.lockstep import DEFAULT_KAFKA, main


@pytest.fixture(scope="module")
def _kafka():
    """Kafka's classes, from Maven Central or Maven's own folder; needs Java and Maven."""
    try:
        build(DEFAULT_KAFKA)
    except MissingToolError as error:
        pytest.skip(f"Kafka cannot run here: {error}")


@pytest.mark.slow
@pytest.mark.usefixtures("_kafka")
@pytest.mark.parametrize("seed", [1, 1_000])
def test_kafka_and_kfast_answer_equally(seed, capsys):
    assert main(["--seed", str(seed), "--steps", "400"]) == 0, capsys.readouterr().out
