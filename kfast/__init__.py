"""kfast: what a Kafka cluster does when something fails, before it happens.

A public name is loaded when it is first asked for, with what it needs and nothing else: a worker
that counts scenarios, or a command that prints its version, does not load the whole library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from kfast.analysis.broker_failure import fail_brokers
    from kfast.analysis.cluster_diff import diff
    from kfast.analysis.compare_answers import compare
    from kfast.analysis.copyset_risk import risk
    from kfast.analysis.explain import explain
    from kfast.analysis.impact import impact
    from kfast.analysis.loss_chances import loss_probability
    from kfast.analysis.plan_execution import execute_plan
    from kfast.analysis.restart_plan import restart_plan
    from kfast.analysis.restart_readiness import may_restart
    from kfast.analysis.topic_deletion import delete_topics
    from kfast.capacity import (
        NewReplicas,
        Restoration,
        broker_capacity,
        capacity_brokers,
        capacity_cost,
        capacity_forecast,
        capacity_of,
        capacity_size,
        capacity_sweep,
        check_plan,
        durability,
        fit_cpu,
        grow_load,
        improve_placement,
        partition_load,
        plan_batches,
        potential_nw_out,
        prepare_capacity,
        read_growth,
        read_prices,
        repair_hours,
        restoration,
    )
    from kfast.controllers import open_controller
    from kfast.controllers.kraft.controller import QuorumController
    from kfast.controllers.zk.controller import Controller
    from kfast.controllers.zk.state_machines import PartitionStateMachine, ReplicaStateMachine
    from kfast.controllers.zk.store import UNDECODABLE, Store
    from kfast.errors import (
        ArgumentError,
        InputError,
        InvariantError,
        KfastError,
        MissingExtraError,
        PolicyError,
        RowError,
    )
    from kfast.figures.results import plot
    from kfast.io import read, read_broker_sets, read_plan, write
    from kfast.io.loads import read_capacity, read_load
    from kfast.journal import Outcome, QuorumOutcome
    from kfast.log_replay import replay
    from kfast.metadata_replay import replay_metadata
    from kfast.report.page.report import write_report
    from kfast.schema import (
        AlterCode,
        Code,
        PartitionState,
        ReassignmentCode,
        ReplicaState,
        Strategy,
    )
    from kfast.state import Assignment, ClusterState, Leadership, Replicas, Tables
    from kfast.state import open as open
    from kfast.state.build import build_digest
    from kfast.state.census import take_census
    from kfast.state.cluster import with_controller
    from kfast.state.generation import generate
    from kfast.state.settings import override_settings
    from kfast.sweeps import (
        SweepPlan,
        prepare_sweep,
        sweep,
        sweep_brokers,
        sweep_partitions,
        sweep_reader,
    )
    from kfast.sweeps.scenario_makers import (
        bursts,
        every_broker,
        every_rack,
        every_rack_and_broker,
        independent_brokers,
        independent_racks,
        random_brokers,
        scenarios_from_table,
    )
    from kfast.sweeps.scenarios import Scenarios
    from kfast.timelines.calibration import fit_times
    from kfast.timelines.comparison import timeline_compare
    from kfast.timelines.failover import timeline
    from kfast.timelines.failure_sweep import timeline_sweep
    from kfast.timelines.interval_files import read_intervals
    from kfast.timelines.parameters import read_params
    from kfast.timelines.planned_clusters import timeline_growth
    from kfast.timelines.rolling_restart import timeline_restart

__version__ = "0.2.0"

__all__ = [
    "UNDECODABLE",
    "AlterCode",
    "ArgumentError",
    "Assignment",
    "ClusterState",
    "Code",
    "Controller",
    "InputError",
    "InvariantError",
    "KfastError",
    "Leadership",
    "MissingExtraError",
    "NewReplicas",
    "Outcome",
    "PartitionState",
    "PartitionStateMachine",
    "PolicyError",
    "QuorumController",
    "QuorumOutcome",
    "ReassignmentCode",
    "ReplicaState",
    "ReplicaStateMachine",
    "Replicas",
    "Restoration",
    "RowError",
    "Scenarios",
    "Store",
    "Strategy",
    "SweepPlan",
    "Tables",
    "broker_capacity",
    "build_digest",
    "bursts",
    "capacity_brokers",
    "capacity_cost",
    "capacity_forecast",
    "capacity_of",
    "capacity_size",
    "capacity_sweep",
    "check_plan",
    "compare",
    "delete_topics",
    "diff",
    "durability",
    "every_broker",
    "every_rack",
    "every_rack_and_broker",
    "execute_plan",
    "explain",
    "fail_brokers",
    "fit_cpu",
    "fit_times",
    "generate",
    "grow_load",
    "impact",
    "improve_placement",
    "independent_brokers",
    "independent_racks",
    "loss_probability",
    "may_restart",
    "open_controller",
    "override_settings",
    "partition_load",
    "plan_batches",
    "plot",
    "potential_nw_out",
    "prepare_capacity",
    "prepare_sweep",
    "random_brokers",
    "read",
    "read_broker_sets",
    "read_capacity",
    "read_growth",
    "read_intervals",
    "read_load",
    "read_params",
    "read_plan",
    "read_prices",
    "repair_hours",
    "replay",
    "replay_metadata",
    "restart_plan",
    "restoration",
    "risk",
    "scenarios_from_table",
    "sweep",
    "sweep_brokers",
    "sweep_partitions",
    "sweep_reader",
    "take_census",
    "timeline",
    "timeline_compare",
    "timeline_growth",
    "timeline_restart",
    "timeline_sweep",
    "with_controller",
    "write",
    "write_report",
]

load_lazily(__name__, {
    "analysis.broker_failure": "fail_brokers",
    "analysis.cluster_diff": "diff",
    "analysis.compare_answers": "compare",
    "analysis.copyset_risk": "risk",
    "analysis.explain": "explain",
    "analysis.impact": "impact",
    "analysis.loss_chances": "loss_probability",
    "analysis.plan_execution": "execute_plan",
    "analysis.restart_plan": "restart_plan",
    "analysis.restart_readiness": "may_restart",
    "analysis.topic_deletion": "delete_topics",
    "capacity": (
        "NewReplicas Restoration broker_capacity capacity_brokers capacity_cost capacity_forecast "
        "capacity_of capacity_size capacity_sweep check_plan durability fit_cpu grow_load "
        "improve_placement partition_load plan_batches potential_nw_out prepare_capacity "
        "read_growth read_prices repair_hours restoration"
    ),
    "controllers": "open_controller",
    "controllers.kraft.controller": "QuorumController",
    "controllers.zk.controller": "Controller",
    "controllers.zk.state_machines": "PartitionStateMachine ReplicaStateMachine",
    "controllers.zk.store": "UNDECODABLE Store",
    "errors": (
        "ArgumentError InputError InvariantError KfastError MissingExtraError PolicyError RowError"
    ),
    "figures.results": "plot",
    "io": "read read_broker_sets read_plan write",
    "io.loads": "read_capacity read_load",
    "journal": "Outcome QuorumOutcome",
    "log_replay": "replay",
    "metadata_replay": "replay_metadata",
    "report.page.report": "write_report",
    "schema": "AlterCode Code PartitionState ReassignmentCode ReplicaState Strategy",
    "state": "Assignment ClusterState Leadership Replicas Tables open",
    "state.build": "build_digest",
    "state.census": "take_census",
    "state.cluster": "with_controller",
    "state.generation": "generate",
    "state.settings": "override_settings",
    "sweeps": "SweepPlan prepare_sweep sweep sweep_brokers sweep_partitions sweep_reader",
    "sweeps.scenario_makers": (
        "bursts every_broker every_rack every_rack_and_broker independent_brokers "
        "independent_racks random_brokers scenarios_from_table"
    ),
    "sweeps.scenarios": "Scenarios",
    "timelines.calibration": "fit_times",
    "timelines.comparison": "timeline_compare",
    "timelines.failover": "timeline",
    "timelines.failure_sweep": "timeline_sweep",
    "timelines.interval_files": "read_intervals",
    "timelines.parameters": "read_params",
    "timelines.planned_clusters": "timeline_growth",
    "timelines.rolling_restart": "timeline_restart",
})
