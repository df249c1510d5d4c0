"""Facts of a metadata log: each decision of the controller, and the verdict on it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from kfast.replay_results.verdicts import CONTRADICTED, MISSING, VERDICTS
from kfast.schema import METADATA_FACTS
from kfast.state.metadata_records import PartitionChangeRecord

CHANGE, CREATION, DELETION, CLEARING, REGISTRATION = (
    "partition change", "new partition", "topic deletion", "cleared ELRs", "registration",
)
"""Kinds of facts."""


@dataclass(frozen=True)
class MetadataContradiction:
    """A decision that is not what the rules give, or one that they give and that is not there.

    Attributes
    ----------
    offset : int
        Of the record; of the record that should have been there, the one before which it is missed.
    time_ms : int
        Of its batch.
    kind, subject : str
        What is decided of what.
    cause : str
        The event that it belongs to.
    logged, predicted : str
        Fields of the records; empty where there is none.
    """

    offset: int
    time_ms: int
    kind: str
    subject: str
    cause: str
    logged: str
    predicted: str

    @property
    def is_missing(self) -> bool:
        """Whether the log lacks it."""
        return not self.logged

    def __str__(self) -> str:
        logged = "is not there" if self.is_missing else f"is {self.logged}"
        return (f"offset {self.offset} ({self.cause}): {self.kind} of {self.subject} {logged}, "
                f"predicted {self.predicted or 'nothing'}")


def shown(record: Any) -> str:
    """The fields of a record that say something, as Kafka names them; empty for no record."""
    if record is None:
        return ""
    names = [item.name for item in fields(record)]
    if isinstance(record, PartitionChangeRecord):
        names = names[3:]
    values = ((name, getattr(record, name)) for name in names)
    return ", ".join(f"{name} {_value(value)}" for name, value in values if value is not None)


def _value(value: Any) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


class Verdicts:
    """Facts in the order in which they are decided; texts only of those that are contradicted."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.times = array("q")
        self.codes = array("i")
        self.subjects: list[str] = []
        self.labels: dict[tuple[str, str, str, str], int] = {}
        """(kind, cause, verdict, reason) to its code."""
        self.contradicted: list[int] = []
        """Places of the facts that are contradicted."""
        self.contradictions: list[MetadataContradiction] = []

    def add(
        self, offset: int, time_ms: int, subject: str,
        label: tuple[str, str, str, str], logged: Any = None, predicted: Any = None,
    ) -> None:
        """Note one fact; `label` is its kind, cause, verdict and reason."""
        self.offsets.append(offset)
        self.times.append(time_ms)
        self.subjects.append(subject)
        self.codes.append(self.labels.setdefault(label, len(self.labels)))
        if label[2] in (CONTRADICTED, MISSING):
            self.contradicted.append(len(self.codes) - 1)
            self.contradictions.append(MetadataContradiction(
                offset, time_ms, label[0], subject, label[1], shown(logged), shown(predicted)
            ))

    def _by_label(self) -> Iterator[tuple[tuple[str, str, str, str], int]]:
        counts = Counter(self.codes)
        return ((label, counts[code]) for label, code in self.labels.items())

    def counts(self, place: int) -> Counter[str]:
        """Facts by one part of their label: 0 kind, 1 cause, 2 verdict, 3 reason."""
        counts: Counter[str] = Counter()
        for label, n in self._by_label():
            counts[label[place]] += n
        return counts

    def reasons(self) -> Counter[str]:
        """Adopted facts by reason."""
        counts = self.counts(3)
        del counts[""]
        return counts

    def kinds(self) -> dict[str, dict[str, int]]:
        """Facts by kind, then by verdict."""
        kinds: dict[str, dict[str, int]] = {}
        for (kind, _, verdict, _), n in self._by_label():
            kinds.setdefault(kind, dict.fromkeys(VERDICTS, 0))[verdict] += n
        return kinds

    def table(self) -> pa.Table:
        """All facts, in the order of the log."""
        columns: Sequence[Any] = [
            pa.array(self.times, pa.timestamp("ms")),
            pa.array(self.offsets, pa.int64()),
            *(self._labels(place) for place in (0, 1)),
            pa.array(self.subjects, pa.string()),
            self._texts([one.logged for one in self.contradictions]),
            self._texts([one.predicted for one in self.contradictions]),
            *(self._labels(place) for place in (2, 3)),
        ]
        table = pa.table(list(columns), schema=METADATA_FACTS.schema)
        return table.sort_by("offset")

    def _texts(self, texts: Sequence[str]) -> pa.Array:
        """A column that says something of the contradictions only."""
        values: list[str | None] = [None] * len(self.offsets)
        for place, text in zip(self.contradicted, texts, strict=True):
            values[place] = text
        return pa.array(values, pa.string())

    def _labels(self, place: int) -> pa.Array:
        values = pa.array([label[place] for label in self.labels], pa.string())
        codes = pa.array(self.codes, pa.int32())
        return pa.DictionaryArray.from_arrays(codes, values).cast(pa.string())
