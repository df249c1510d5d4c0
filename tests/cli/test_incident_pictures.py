"""`kfast replay --plot` and `plot()` of replays: the incident as a picture."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

import kfast
from kfast import schema
from kfast.figures.incidents import (
    MOST_LANES,
    MOST_STEPS,
    incident_figure,
    incident_marks,
)
from kfast.report.incident_picture import incident_picture
from kfast.report.pictures import PICTURE_ENDINGS, write_picture
from tests.cli.test_pictures import size_of, texts
from tests.support.cli_run import ROOT, run

INCIDENT = ROOT / "bench_data" / "incident"
START = 1_700_000_000_000
DAY = 86_400_000
HOSTILE = '<img src=x onerror=alert(1)></script><script>alert(2)</script>&\x1b]0;x\x07"{{7*7}}'


def tables(events=((START, "failover", "x"),), outages=(), moves=(), sessions=(), terms=()):
    """Tables of an incident: (time, event, what); (what, since, until); (id, epoch, ...)."""
    zeros = dict.fromkeys(schema.TIMELINE.schema.names, 0)
    rows = [
        {**zeros, "time": time, "event": event, "what": what, "inferred": False,
         "became_leaderless": [], "got_leader": []} for time, event, what in events
    ]

    def table(result, rows):
        names = result.schema.names
        return result.table({name: [row[at] for row in rows] for at, name in enumerate(names)})

    return (
        schema.TIMELINE.table({name: [row[name] for row in rows] for name in zeros}),
        table(schema.OUTAGES, [(*row, None, 0) for row in outages]),
        table(schema.REPLAY_REASSIGNMENTS, [(*row, None, 0) for row in moves]),
        table(schema.BROKER_SESSIONS, [(*row, 0) for row in sessions]),
        table(schema.CONTROLLER_TERMS, [(*row, 0) for row in terms]),
    )


def written(tmp_path, marks, ending, title="An incident"):
    """A picture as bytes."""
    path = tmp_path / f"x{ending}"
    write_picture(incident_picture(title, [title], marks), path)
    return path.read_bytes()


@pytest.mark.parametrize("ending", PICTURE_ENDINGS)
def test_a_replay_draws_its_incident(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    done = run("replay", INCIDENT, "--plot", path)
    assert f"Wrote {path}." in done.stderr
    data = path.read_bytes()
    if ending == ".svg":
        seen = texts(data)
        for text in ("9 events from 2020-09-13 12:26:50.001", "broker", "1", "3", "leaderless",
                     "broker up", "active controller", "time, by the clock of the log"):
            assert any(text in line for line in seen), text
        assert not any("reassigned" in line for line in seen)
    elif ending == ".png":
        assert min(size_of(data)) > 500
    else:
        assert b"<script src" not in data, "it would need a network"


def test_marks_of_the_incident():
    """Broker 3 was away for as long as `solo-0` had no leader; 1 was the controller."""
    found = kfast.replay(INCIDENT)
    marks = incident_marks(
        found.timeline, found.outages, found.reassignments, found.broker_sessions,
        found.controller_terms,
    )
    (outage,) = found.outages.to_pylist()
    (_, begin, gone), (_, back, end) = [row for row in marks.sessions if row[0] == "3"]
    assert (begin, end) == (marks.begin, marks.end)
    assert back - gone == outage["duration_ms"]
    assert marks.leaderless == [(marks.begin, 0), (gone, 1), (back, 0), (marks.end, 0)]
    assert [lane for lane, *_ in marks.terms] == ["1"]
    assert marks.lanes == ["1", "2", "3"]


def test_results_draw_themselves(shared_data):
    """Of text logs and of metadata logs; `kfast.plot` takes both."""
    figure = kfast.plot(kfast.replay(INCIDENT))
    assert [trace.name for trace in figure.data] == [
        "broker up", "controller", "leaderless partitions",
    ]
    log = shared_data / "kraft_live" / "metadata" / "__cluster_metadata-0"
    figure = kfast.replay_metadata(log).plot()
    assert [trace.name for trace in figure.data] == [
        "broker up", "controller", "leaderless partitions", "partitions being reassigned",
        "unclean election",
    ]
    assert [*figure.layout.yaxis.categoryarray] == ["1", "2", "3", "4", "5", "controller 90"]
    assert max(figure.data[3].y) == 17
    assert max(figure.data[2].y) == 177


def test_unclean_elections_are_marked(tmp_path):
    marks = incident_marks(*tables(
        [(START, "failover", "x"), (START + 9000, schema.UNCLEAN_ELECTION, "of t-1")],
        outages=[("t-1", START + 1000, START + 9000)], moves=[("m-1", START, None)],
        sessions=[(1, None, None)], terms=[(1, 7, START, None)],
    ))
    assert marks.unclean == [(START + 9000, "of t-1")]
    seen = texts(written(tmp_path, marks, ".svg"))
    assert "unclean election" in seen
    assert any("being reassigned" in line for line in seen)
    assert incident_figure(marks).data[-1].name == "unclean election"


@pytest.mark.parametrize("events", [(), ((START, "failover", "x"),)])
def test_a_log_of_one_event_or_none(tmp_path, events):
    marks = incident_marks(*tables(events))
    assert marks.end - marks.begin == 1000
    assert "time, by the clock of the log" in texts(written(tmp_path, marks, ".svg"))
    assert len(incident_figure(marks).data) == 3


def test_a_year_of_300_brokers(tmp_path):
    """Brokers that never were down have no lane; the curve keeps its peaks."""
    sessions = [
        row for broker in range(300) for row in (
            [(broker, None, START + broker * DAY), (broker, START + broker * DAY + 60_000, None)]
            if broker % 3 else [(broker, None, None)]
        )
    ]
    outages = [(f"t-{at}", START + at * 3_000_000, START + at * 3_000_000 + 100)
               for at in range(10_000)]
    outages += [(f"u-{at}", START + 200 * DAY, START + 200 * DAY + 1) for at in range(50)]
    marks = incident_marks(*tables(
        [(START, "failover", "x"), (START + 365 * DAY, "brokers", "y")], outages=outages,
        sessions=sessions, terms=[(0, 1, START, None)],
    ))
    assert MOST_LANES < len(marks.lanes) == 201
    assert marks.n_hidden == 99
    assert len(marks.leaderless) <= MOST_STEPS
    assert max(n for _, n in marks.leaderless) in (50, 51)
    data = written(tmp_path, marks, ".svg")
    words = "99 brokers that were up all the time are not shown."
    assert any(words in text for text in texts(data))
    height = float(ElementTree.fromstring(data).get("height"))
    assert 900 < height < 1400


@pytest.mark.parametrize("ending", [".svg", ".html"])
def test_hostile_names_stay_names(tmp_path, ending):
    """Neither markup nor control characters of a name get into a picture."""
    marks = incident_marks(*tables(
        [(START, "failover", HOSTILE), (START + 9, schema.UNCLEAN_ELECTION, HOSTILE)],
        outages=[(HOSTILE, START, START + 9)], sessions=[(1, None, None)],
    ))
    data = written(tmp_path, marks, ending, HOSTILE).decode()
    assert "<script>alert(2)" not in data
    assert "<img src=x" not in data
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", data if ending == ".svg" else "")
    if ending == ".svg":
        ElementTree.fromstring(data)
    page = incident_figure(marks).to_json()
    assert "<img" not in json.loads(page)["data"][-1]["hovertext"][0]


@pytest.mark.parametrize(("name", "words"), [
    ("x.pdf", "has to end in one of .svg, .png, .html"), ("missing/x.svg", "does not exist"),
])
def test_what_is_no_picture_is_refused_first(tmp_path, name, words):
    """Before a log is even looked for."""
    refused = run("replay", tmp_path / "nothing", "--plot", tmp_path / name, code=2)
    assert words in " ".join(refused.stderr.split())
