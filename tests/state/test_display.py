"""Objects show themselves in a line, and in a notebook in a small table, whatever the cluster."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from enum import Enum
from html.parser import HTMLParser
from itertools import cycle, islice
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfast
from kfast import ClusterState
from kfast.io import SourceTables
from kfast.log_replay.report.replay import Replay
from kfast.state.display import MAX_HTML, MAX_TEXT, escape_control, summary_html, summary_text

HOSTILE = [
    "<script>alert('&')</script>", "\x1b[31mred\x1b]0;title\x07", "b" * 249, "</td></table><b>",
    "\u202egnp.txt", "two\nlines\r\x00", "\u2028\u2066\x9b\x7f", "\U000e0041\u200b\ufeff",
    "[/b][red]", "&lt;&#x1b;", '" onmouseover="x', "<" * 249, "\x1b" * 249, "\u6771\u4eac",
]
"""Names that want to be markup, escape sequences, invisible, or long."""

N_TOPICS = 100_000
LARGEST_ID = 2**31 - 1


def facts(title="Thing", /, **labelled):
    """Something that has these facts."""
    return SimpleNamespace(_summary=lambda: (title, labelled))


class Page(HTMLParser):
    """Tags and text of some HTML, in which every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], Counter(), []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert attrs == []
        self.open.append(tag)
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def check(shown):
    """Both forms are bounded and hold nothing that a terminal or a browser would obey."""
    line, html = repr(shown), shown._repr_html_()
    assert line.isprintable()
    assert len(line) <= MAX_TEXT
    assert line.startswith("<")
    assert line.endswith(">")
    assert html.isprintable()
    assert len(html.encode()) <= MAX_HTML
    page = Page(html)
    assert set(page.tags) <= {"table", "caption", "tbody", "tr", "th", "td"}
    assert page.tags["table"] == page.tags["caption"] == 1
    assert page.tags["tr"] == page.tags["th"] == page.tags["td"] >= 1
    ElementTree.fromstring(html)


# --- a hostile cluster --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile():
    """A hundred thousand topics and fifty racks with hostile names, and broker ids of ten digits.

    `ClusterState.from_tables` takes topic names of any text; Kafka's own names are plain.
    """
    ids = np.arange(LARGEST_ID - 999, LARGEST_ID + 1, dtype=np.int32)
    places = np.arange(N_TOPICS, dtype=np.int64)
    replicas = ids[np.stack([places, places + 1, places + 7], axis=1) % ids.size]
    topics = [f"{name}{at}" for at, name in enumerate(islice(cycle(HOSTILE), N_TOPICS))]
    return ClusterState.from_tables(
        brokers=pa.table({
            "broker_id": ids,
            "rack": [f"{name}{at % 50}" for at, name in enumerate(islice(cycle(HOSTILE), 1000))],
        }),
        partitions=pa.table({
            "topic": topics, "partition": pa.array(np.zeros(N_TOPICS, np.int32)),
            "replicas": pa.FixedSizeListArray.from_arrays(pa.array(replicas.ravel()), 3),
        }),
    )


def some_ids(state, n=300):
    return state.broker_id[:n].tolist()


SHOWN = {
    "state": lambda s: s,
    "without tables": lambda _: ClusterState(),
    "tables": lambda s: s.to_tables(),
    "source tables": lambda s: SourceTables("\x1b[2J\udcff<p>" * 99, s.to_tables().partitions),
    "replicas": lambda s: s.replicas_on_brokers(some_ids(s)),
    "controller": lambda s: kfast.Controller(s.copy(), store=kfast.Store(s)),
    "store": lambda s: kfast.Store(s),
    "outcome": lambda s: kfast.Controller(s.copy()).on_controller_failover(),
    "outcome, journal off": lambda s: kfast.Controller(s.copy(), journal="off").on_broker_failure(
        some_ids(s)
    ),
    "census": kfast.take_census,
    "failure": lambda s: kfast.fail_brokers(s, some_ids(s)),
    "impact": lambda s: kfast.fail_brokers(s, some_ids(s)).impact,
    "event": lambda s: kfast.fail_brokers(s, some_ids(s)).events[1],
    "reassignment": lambda s: kfast.execute_plan(
        s, {(s.topic[1].as_py(), 0): some_ids(s, 3)}, broker_ids=some_ids(s)
    ),
    "deletion": lambda s: kfast.delete_topics(s, s.topic[:9].to_pylist(), broker_ids=some_ids(s)),
    "readiness": kfast.may_restart,
    "restart plan": lambda s: kfast.restart_plan(s, seconds_per_broker=1e18, work=0),
    "risk": kfast.risk,
    "sweep plan": kfast.prepare_sweep,
    "every broker": kfast.every_broker,
    "every rack": kfast.every_rack,
    "random brokers": lambda s: kfast.random_brokers(s, 3, 10**9, 2**64 - 1),
    "independent brokers": lambda s: kfast.independent_brokers(s, 1 / 3, 9, 1),
    "bursts": lambda s: kfast.bursts(s, 1 / 3, 9, 1),
    "listed": lambda s: kfast.scenarios_from_table(
        s, pa.table({"scenario": [1], "broker": [LARGEST_ID]})
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_results_of_a_hostile_cluster_stay_small(hostile, name):
    check(SHOWN[name](hostile))


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_an_explanation_has_the_name_of_its_topic_escaped(hostile, at):
    """As a text too, for it is printed."""
    topic = hostile.topic[at].as_py()
    found = kfast.explain(hostile, some_ids(hostile), [(topic, 0)])[0]
    check(found)
    assert repr(found).startswith(f"<Explanation of {escape_control(topic)}"[:80])
    assert all(line.isprintable() for line in str(found).split("\n"))


@pytest.mark.parametrize("path", ["\x1b]0;x\x07", "a\udcff/<b>", "x" * 4096, "\u202e" * 999])
def test_a_replay_has_its_path_escaped(path):
    empty = pa.table({})
    counts = {"predicted": 5, "adopted": 1, "unknown": 2, "contradicted": 0, "missing": 0}
    found = Replay(
        *[empty] * 5, path, (), 7, empty, (), (), counts, 6, {}, {}, {}, (), f"zk-{path}", None
    )
    check(found)
    assert "5 predicted, 1 adopted, 2 unknown, 0 contradicted" in repr(found)


def test_results_on_spark_show_themselves_without_a_job():
    pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
    from kfast.spark import ClusterFrames, ShardedOutcome

    check(ClusterFrames(None, None, None, None))
    brokers = pa.table({"broker_id": [1, 2]})
    outcome = ShardedOutcome(
        1, 9, {"offline": 2}, brokers, (None, "NOT_CONTROLLER"), (None, None), (), brokers,
        "/tmp/<b>\x1b" * 999, None, None, None, None, None, False,
    )
    check(outcome)
    assert repr(outcome).startswith(
        "<ShardedOutcome: 2 events, 1 refused, 2 brokers, 9 partitions, 2 offline, state /tmp/<b>"
    )


# --- what is shown ------------------------------------------------------------------------------


def test_a_cluster_shows_its_size():
    state = kfast.generate(brokers=5, partitions=12, topics=3, racks=2)
    kfast.Controller(state).on_broker_failure([3])
    assert repr(state) == (
        "<ClusterState: 5 brokers, 4 registered, 2 racks, 3 topics, 12 partitions, 0 assumptions>"
    )
    page = Page(state._repr_html_())
    assert page.text[:5] == ["ClusterState", "brokers", "5", "registered", "4"]


def test_partitions_and_topics_that_are_gone_do_not_count():
    state = kfast.generate(brokers=5, partitions=12, topics=3)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.delete_topics(state.topic[:1].to_pylist())
    controller.acknowledge_deletions()
    gone = int((state.topic_row == 0).sum())
    assert f"2 topics, {12 - gone} partitions" in repr(state)


def test_a_failure_begins_with_who_failed():
    state = kfast.generate(brokers=5, partitions=12, replication_factor=1)
    found = kfast.fail_brokers(state, [1, 3])
    offline = found.impact.summary["offline"]
    assert offline > 0
    assert repr(found).startswith(f"<Failure: broker_ids 1,3, {offline} offline, ")
    assert Page(found._repr_html_()).text[1:5] == ["broker_ids", "1,3", "offline", str(offline)]


def test_a_risk_counts_nothing_to_show_itself():
    found = kfast.risk(kfast.generate(brokers=5, partitions=12))
    before = set(vars(found))
    assert "copysets" not in repr(found)
    assert set(vars(found)) == before
    assert f"{found.n_copysets} copysets" in repr(found)


def test_a_refused_event_says_so_first():
    controller = kfast.Controller(kfast.generate(brokers=3, partitions=3))
    controller.active = False
    outcome = controller.on_broker_failure([1])
    assert repr(outcome).startswith("<Outcome of on_broker_failure: error NOT_CONTROLLER, 0 steps")
    assert "not active" in repr(controller)


def test_public_classes_show_themselves():
    """All that hold tables or arrays; the others are a handful of numbers, or machines."""
    small = {
        "Assignment", "Leadership", "PartitionStateMachine", "ReplicaStateMachine", "Restoration",
    }
    for name in set(kfast.__all__) - small:
        value = getattr(kfast, name)
        if isinstance(value, type) and not issubclass(value, Exception | Enum):
            assert value.__repr__ is summary_text, name
            assert value._repr_html_ is summary_html, name


# --- the forms ----------------------------------------------------------------------------------


def test_facts_come_in_order_and_what_is_not_so_is_left_out():
    shown = facts(brokers=12, topics=1, state="up", idle=True, moved=False, error=None, share=0.5)
    assert summary_text(shown) == "<Thing: 12 brokers, 1 topic, state up, idle, 0.5 share>"
    assert Page(summary_html(shown)).text == [
        "Thing", "brokers", "12", "topics", "1", "state", "up", "idle", "yes", "share", "0.5",
    ]
    assert summary_text(facts()) == "<Thing>"


def test_what_does_not_fit_is_left_out_as_a_whole():
    shown = facts(**{f"label_{at}": at for at in range(10_000)})
    line, html = summary_text(shown), summary_html(shown)
    assert re.fullmatch(r"<Thing: (\d+ label_\d+, )+\.\.\.>", line)
    assert MAX_TEXT - 25 < len(line) <= MAX_TEXT
    assert MAX_HTML - 50 < len(html.encode()) <= MAX_HTML
    assert Page(html).text[-1] == "..."


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()))
def test_any_text_makes_a_bounded_line_and_a_sound_table(title, labelled):
    shown = SimpleNamespace(_summary=lambda: (title, labelled))
    line, html = summary_text(shown), summary_html(shown)
    assert line.isprintable()
    assert html.isprintable()
    assert len(line) <= MAX_TEXT
    assert len(html.encode()) <= MAX_HTML
    assert set(Page(html).tags) <= {"table", "caption", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain-topic_1.x y", "plain-topic_1.x y"),
        ("\u6771\u4eac \u00fcber \U0001f600", "\u6771\u4eac \u00fcber \U0001f600"),
        ("\x1b[31m", r"\x1b[31m"), ("a\nb\tc\r", r"a\x0ab\x09c\x0d"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202e\u2066\u200f", r"\u202e\u2066\u200f"), ("\u2028\u2029", r"\u2028\u2029"),
        ("\udcff", r"\udcff"), ("\U000e0041", r"\U000e0041"), ("a\\x1b", r"a\x1b"),
    ],
)
def test_control_characters_are_made_visible(text, escaped):
    assert escape_control(text) == escaped


def test_every_character_is_escaped_or_stays_by_its_category():
    """Controls, formats, surrogates, separators but the blank; letters, digits, marks, symbols."""
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] in "LMNPS" or character == " ":
            assert escape_control(character) == character
        else:
            assert re.fullmatch(r"\\(x..|u.{4}|U.{8})", escape_control(character)), category
