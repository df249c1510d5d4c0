"""What tells one cluster from another: registrations of brokers, and topics.

A broker's epoch is the number of the ZooKeeper transaction that registered it, so it never falls
within a cluster, and who registers later has a higher one. Controller epochs begin at 1 in each:
alone they do not tell two clusters apart whose logs lie in one folder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kfast.log_replay.wording.forms import Statement

ENOUGH = 2
"""Signs that make two terms those of two clusters: a single one may be a fault in the log."""


@dataclass
class Inventory:
    """Brokers and topics of a cluster, as far as the lines of a term tell.

    Attributes
    ----------
    first_epochs, last_epochs : dict
        Epoch of each broker where a line lists it first and last.
    listed : frozenset of str or None
        Topics that the new controller read; None where no line lists them.
    topics : frozenset of str or None
        Topics at the end of the term.
    """

    first_epochs: dict[int, int] = field(default_factory=dict)
    last_epochs: dict[int, int] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    topics: frozenset[str] | None = None

    def follow(self, earlier: Inventory) -> None:
        """Keep what an earlier term of the cluster told and this one does not."""
        self.last_epochs = {**earlier.last_epochs, **self.last_epochs}
        if self.topics is None:
            self.topics = earlier.topics

    def n_fallen(self, earlier: Inventory) -> int:
        """How many brokers have an epoch that they cannot have after an earlier term.

        It is lower than their last one, or they are new and it is lower than one that another
        broker had: a line of epochs lists all registered brokers, so they stood beside it. Who
        comes back with a lower epoch itself is no witness: that one may be a fault in the log.
        """
        last, first = earlier.last_epochs, self.first_epochs
        highest = max(
            (epoch for broker, epoch in last.items() if first.get(broker, epoch) >= epoch),
            default=-1,
        )
        return sum(
            epoch < max(last.get(broker, -1), highest) and epoch != last.get(broker)
            for broker, epoch in first.items()
        )

    def differs(self, earlier: Inventory) -> bool:
        """Whether this is another cluster than the one of an earlier term.

        It is where no topic is left, or brokers have lower epochs: two of them, or one and the
        topics are others.
        """
        n_signs = self.n_fallen(earlier)
        if earlier.topics is not None and self.listed is not None:
            before, now = own_topics(earlier.topics), own_topics(self.listed)
            if before and now and before.isdisjoint(now):
                return True
            n_signs += earlier.topics != self.listed
        return n_signs >= ENOUGH

    def continues(self, earlier: Inventory) -> bool:
        """Whether brokers and topics are those that an earlier term left."""
        return bool(
            self.first_epochs.keys() & earlier.last_epochs.keys()
            and not self.n_fallen(earlier)
            and self.listed is not None and self.listed == earlier.topics
        )


def own_topics(topics: Collection[str]) -> set[str]:
    """Topics that are not internal ones, which every cluster has."""
    return {topic for topic in topics if not topic.startswith("__")}


def take_inventory(statements: Sequence[Statement], numbers: Sequence[int]) -> Inventory:
    """Inventory of a term with these lines."""
    found = Inventory()
    for number in numbers:
        fields, kind = statements[number].fields, statements[number].kind
        if kind == "broker_epochs":
            for broker, epoch in fields["epochs"].items():
                found.first_epochs.setdefault(broker, epoch)
                found.last_epochs[broker] = epoch
        elif kind == "topics":
            found.topics = found.listed = frozenset(fields["topics"])
        elif found.topics is not None and kind == "new_topics":
            found.topics = found.topics.union(fields["topics"]).difference(fields["deleted"])
        elif found.topics is not None and kind == "deletion_done":
            found.topics = found.topics - {fields["topic"]}
    return found
