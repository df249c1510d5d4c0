"""Rules of kernels that are broken on purpose are found beside Kafka; docs/lockstep.md."""

from __future__ import annotations

import pytest

from tests.kafka.broken_rules import (
    KERNELS,
    MOST_EVENTS,
    MOST_STEPS,
    ROOT,
    RULES,
    find,
    kernels_with,
)
from tests.kafka.kafka_classes import KRAFT, ZOOKEEPER, MissingToolError, build
from tests.support.long_tests import share_of

NAMES = [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_a_rule_is_one_text_of_a_kernel(rule):
    assert (ROOT / KERNELS / rule.kernel).read_text("utf-8").count(rule.text) == 1
    assert len(kernels_with(rule.kernel, ROOT / KERNELS)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("at", share_of(range(len(RULES))[::-1]), ids=lambda at: RULES[at].name)
def test_a_broken_kernel_is_found_and_shrunk_to_few_events(at):
    """Needs Java, Maven and a C compiler, which builds kernels again for each."""
    rule = RULES[at]
    try:
        build(rule.kafka, ZOOKEEPER if rule.kafka.startswith("3.") else KRAFT)
    except MissingToolError as error:
        pytest.skip(f"Kafka cannot run here: {error}")
    found = find(rule, 900)
    assert found is not None
    assert found.steps <= MOST_STEPS
    assert found.events <= MOST_EVENTS
