"""What the results of both replays can do with their tables of an incident."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfast.figures.incidents import incident_figure, incident_marks

if TYPE_CHECKING:
    import pyarrow as pa
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Incident:
    """The tables of an incident, and its figure.

    Attributes
    ----------
    timeline : pa.Table
        One row per event that changed anything.
    outages : pa.Table
        Who was without a leader, from when to when; `until` is null where it still was at the end.
    reassignments, broker_sessions, controller_terms : pa.Table
        Who was reassigned, was live, was the controller, from when to when.
    """

    timeline: pa.Table
    outages: pa.Table
    reassignments: pa.Table
    broker_sessions: pa.Table
    controller_terms: pa.Table

    def plot(self) -> Figure:
        """Draw the incident, as a figure of plotly: brokers up, controllers, leaderless partitions.

        Raises
        ------
        MissingExtraError
            plotly is not installed (the extra `report`).
        """
        return incident_figure(incident_marks(
            self.timeline, self.outages, self.reassignments, self.broker_sessions,
            self.controller_terms,
        ))
