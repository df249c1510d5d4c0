"""Forms of state-change.log: transitions and requests of controllers, and what brokers did.

Old releases (before 1.0) begin a message with `Controller 1 epoch 3` or `Broker 1` and go on in
lower case; the prefix is taken off and the first letter made a capital, so one form serves both.
Source: the releases 0.10.0 to 3.9, read for how their messages look; logs of real clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kfast.controllers import RELEASES
from kfast.log_replay.wording.controller_log import NO_FACTS
from kfast.log_replay.wording.forms import Form, Forms

TRANSITIONS = (
    Form("partition_new", "Changed partition {partition:partition} state from {before:word} to "
         "{after:word} with assigned replicas {replicas:ids}"),
    Form("partition_led", "Changed partition {partition:partition} from {before:word} to "
         "{after:word} with state {record:any_record}", "1.1"),
    Form("partition_led", "Changed partition {partition:partition} from {before:word} to "
         "{after:word} with leader {leader:int}", "", "1.0"),
    Form("partition_moved", "Changed partition {partition:partition} state from {before:word} to "
         "{after:word}"),
    Form("replica_moved", "Changed state of replica {replica:int} for partition "
         "{partition:partition} from {before:word} to {after:word}"),
    Form("shrunk", "Partition {partition:partition} state changed to {record:record} after "
         "removing replica {replica:int} from the ISR as part of transition to OfflineReplica",
         "2.5"),
    Form("partition_failed", "Controller {controller:int} epoch {controller_epoch:int} failed to "
         "change state for partition {partition:partition} from {before:word} to {after:word}",
         "1.1"),
    Form("replica_failed", "Controller {controller:int} epoch {controller_epoch:int} initiated "
         "state change of replica {replica:int} for partition {partition:partition} from "
         "{before:word} to {after:word} failed", "1.1"),
    Form("partition_failed", "Initiated state change for partition {partition:partition} from "
         "{before:word} to {after:word} failed", "", "1.0"),
    Form("replica_failed", "Initiated state change of replica {replica:int} for partition "
         "{partition:partition} from {before:word} to {after:word} failed", "", "1.0"),
    Form("elected_leader", "Elected leader {leader:int} for Offline partition "
         "{partition:partition}", "", "1.0"),
    Form(NO_FACTS, "Started leader election for partition {:rest}", "", "1.0"),
    Form("store_record", "Encountered error while electing leader for partition "
         "{partition:partition} due to: {:text}Current leader and ISR: [{record:any_record}]"
         "{:text}", "", "1.0"),
    Form(NO_FACTS, "Encountered error while electing leader for partition {:rest}", "", "1.0"),
    Form("replicas_offline", "Mark replicas {partitions:partitions} on broker {broker:int} as "
         "offline", "1.0"),
)

REQUESTS = (
    Form("sent_leader_and_isr", "Sending LeaderAndIsr request to broker {broker:int} with "
         "{n_leaders:int} become-leader and {n_followers:int} become-follower partitions", "2.6"),
    Form("sent_update_metadata", "Sending UpdateMetadata request to brokers {brokers:ids} for "
         "{n:int} partitions", "2.6"),
    Form("sent_stop_replica", "Sending StopReplica request for {n:int} replicas to broker "
         "{broker:int}", "2.6"),
    Form("sent_stop_replica", "Sending StopReplica request (delete = {delete:bool}) for {n:int} "
         "replicas to broker {broker:int}", "2.6"),
    Form("sent_leader_and_isr_partition", "Sending {role:word} LeaderAndIsr request "
         "{record:any_record} to broker {broker:int} for partition {partition:partition}"),
    Form("sent_update_metadata_partition", "Sending UpdateMetadata request {record:any_record} to "
         "brokers {brokers:ids} for partition {partition:partition}", "0.10"),
    Form("sent_update_metadata_partition", "Sending UpdateMetadata request {record:any_record} to "
         "broker {broker:int} for partition {partition:partition}", "", "0.10"),
    Form("sent_stop_replica_partition", "Sending StopReplica request StopReplicaPartitionState("
         "{:text}leaderEpoch={leader_epoch:int}, deletePartition={delete:bool}) to broker "
         "{broker:int} for partition {partition:partition}", "2.6"),
    Form("sent_reassignment", "Sent LeaderAndIsr request {record:record} with new replica "
         "assignment {assignment:assignment} to leader {leader:int} for partition being reassigned "
         "{partition:partition}", "2.4"),
    Form("sent_reassignment", "Sent LeaderAndIsr request {record:any_record} with new assigned "
         "replica list {replicas:ids} to leader {leader:int} for partition being reassigned "
         "{partition:partition}", "", "2.3"),
    Form("stop_answered", "Received response StopReplicaResponseData(errorCode={error:int}, "
         "partitionErrors={errors:error_codes}) for request STOP_REPLICA with correlation id "
         "{:int} sent to broker {:text} (id: {broker:int} rack: {:rest}"),
    Form(NO_FACTS, "Received response {:rest}"),
    Form(NO_FACTS, "Received error {:rest}"),
    Form(NO_FACTS, "Failed to send LeaderAndIsr request {:rest}"),
)

_REQUEST = ("correlation id {correlation:int} from controller {controller:int} epoch "
            "{controller_epoch:int} for partition {partition:partition}")
_FROM = ("from controller {controller:int} with correlation id {correlation:int} epoch "
         "{controller_epoch:int} for partition {partition:partition}")

BROKER_REQUESTS = (
    Form("handling", "Handling {request:word} request correlationId {correlation:int} from "
         "controller {controller:int} for {n:int} partitions", "2.6"),
    Form("finished", "Finished {request:word} request in {:int}ms correlationId {correlation:int} "
         "from controller {controller:int} for {n:int} partitions", "2.7"),
    Form("stopped_fetchers", "Stopped fetchers as part of LeaderAndIsr request correlationId "
         "{correlation:int} from controller {controller:int} epoch {controller_epoch:int} as part "
         "of the become-leader transition for {n:int} partitions", "2.6", "", {"role": "leader"}),
    Form("stopped_fetchers", "Stopped fetchers as part of become-follower request from controller "
         "{controller:int} epoch {controller_epoch:int} with correlation id {correlation:int} for "
         "{n:int} partitions", "2.6", "", {"role": "follower"}),
    Form("received", f"Received LeaderAndIsr request {{record:any_record}} {_REQUEST}", "", "2.3"),
    Form("received_dump", "Received LeaderAndIsr request {received:received} correlation id "
         "{correlation:int} from controller {controller:int} epoch {controller_epoch:int}", "2.4"),
    Form("stopping", "Handling stop replica (delete={delete:bool}) for partition "
         "{partition:partition}", "", "2.5"),
    Form(NO_FACTS, "Ignoring stop replica {:rest}", "", "2.5"),
    Form(NO_FACTS, "Finished handling stop replica {:rest}", "", "2.5"),
    Form("received_stop", "Received StopReplica request StopReplicaPartitionState({:text}"
         "leaderEpoch={leader_epoch:int}, deletePartition={delete:bool}) correlation id "
         "{correlation:int} from controller {controller:int} epoch {controller_epoch:int} for "
         "partition {partition:partition}", "2.6"),
)

BROKER_ROLES = (
    Form("became_leader", "Leader {partition:partition} starts at leader epoch {leader_epoch:int} "
         "from offset {:int} with high watermark {:int} ISR {isr:ids} addingReplicas {adding:ids} "
         "removingReplicas {removing:ids}. Previous leader epoch was {previous:int}.",
         "2.6", "3.2"),
    Form("became_leader", "Leader {partition:partition} with topic id {:text} starts at leader "
         "epoch {leader_epoch:int} from offset {:int} with partition epoch {version:int}, high "
         "watermark {:int}, ISR {isr:ids}, adding replicas {adding:ids} and removing replicas "
         "{removing:ids}{:text}. Previous leader {previous_leader:some_int} and previous leader "
         "epoch was {previous:int}.", "3.5"),
    Form("became_leader", "Leader {partition:partition} with topic id {:text} starts at leader "
         "epoch {leader_epoch:int} from offset {:int} with partition epoch {version:int}, high "
         "watermark {:int}, ISR {isr:ids}, adding replicas {adding:ids} and removing replicas "
         "{removing:ids}{:text}. Previous leader epoch was {previous:int}.", "3.3"),
    Form("became_follower", "Follower {partition:partition} starts at leader epoch "
         "{leader_epoch:int} from offset {:int} with high watermark {:int}. Previous leader epoch "
         "was {previous:int}.", "2.6", "3.2"),
    Form("became_follower", "Follower {partition:partition} starts at leader epoch "
         "{leader_epoch:int} from offset {:int} with partition epoch {version:int} and high "
         "watermark {:int}. Current leader is {leader:int}. Previous leader epoch was "
         "{previous:int}.", "3.3", "3.5"),
    Form("became_follower", "Follower {partition:partition} starts at leader epoch "
         "{leader_epoch:int} from offset {:int} with partition epoch {version:int} and high "
         "watermark {:int}. Current leader is {leader:int}. Previous leader "
         "{previous_leader:some_int} and previous leader epoch was {previous:int}.", "3.5"),
    Form("already_leader", "Skipped the become-leader state change after marking its partition as "
         "leader with correlation id {correlation:int} from controller {controller:int} epoch "
         "{controller_epoch:int} for partition {partition:partition} (last update controller epoch "
         "{record_epoch:int}) since it is already the leader for the partition.", "1.0", "3.3"),
    Form("already_leader", "Skipped the become-leader state change after marking its partition as "
         f"leader with {_REQUEST} since it is already the leader for the partition.", "", "0.11"),
    Form("already_leader_state", "Skipped the become-leader state change for {partition:partition} "
         "with topic id {:text} and partition state {:text} since it is already the leader "
         "with leader epoch {leader_epoch:int}. Current high watermark {:int}, ISR {isr:ids}, "
         "adding replicas {adding:ids} and removing replicas {removing:ids}.", "3.3"),
    Form("already_follower", "Skipped the become-follower state change after marking its partition "
         "as follower with correlation id {correlation:int} from controller {controller:int} epoch "
         "{controller_epoch:int} for partition {partition:partition} (last update controller epoch "
         "{record_epoch:int}) since the new leader {leader:int} is the same as the old leader",
         "1.0", "3.3"),
    Form("already_follower", "Skipped the become-follower state change after marking its partition "
         f"as follower with {_REQUEST} since the new leader {{leader:int}} is the same as the old "
         "leader", "", "0.11", {"epoch_is_records": True}),
    Form("already_follower_state", "Skipped the become-follower state change for "
         "{partition:partition} with topic id {:text} and partition state {:text} since it "
         "is already a follower with leader epoch {leader_epoch:int}.", "3.3"),
    Form("leader_unavailable", "Received LeaderAndIsrRequest with correlation id {correlation:int} "
         "from controller {controller:int} epoch {controller_epoch:int} for partition "
         "{partition:partition} (last update controller epoch {record_epoch:int}) but cannot "
         "become follower since the new leader {leader:int} is unavailable.", "1.0"),
    Form("leader_unavailable", f"Received LeaderAndIsrRequest with {_REQUEST} but cannot become "
         "follower since the new leader {leader:int} is unavailable.", "", "0.11",
         {"epoch_is_records": True}),
    Form("same_epoch", "Ignoring {request:word} request "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} matches the current "
         "leader epoch", "2.3"),
    Form("same_epoch", "Ignoring {request:word} request (delete={delete:bool}) "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} matches the current "
         "leader epoch", "2.6"),
    Form("old_epoch", "Ignoring {request:word} request "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} is smaller than the "
         "current leader epoch {current:int}", "2.3"),
    Form("old_epoch", "Ignoring {request:word} request (delete={delete:bool}) "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} is smaller than the "
         "current leader epoch {current:int}", "2.6"),
    Form("old_epoch", "Ignoring {request:word} request "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} is not higher than the "
         "current leader epoch {current:int}", "", "2.2"),
    Form("old_epoch", "Ignoring {request:word} request "
         f"{_FROM} since its associated leader epoch {{leader_epoch:int}} is old. Current leader "
         "epoch is {current:int}", "", "0.10"),
    Form("not_assigned", "Ignoring {request:word} request "
         f"{_FROM} as itself is not in assigned replica list {{replicas:ids}}"),
    Form("dir_offline", "Ignoring {request:word} request "
         f"{_FROM} as the local replica for the partition is in an offline log directory", "1.0"),
    Form("old_controller", "Ignoring LeaderAndIsr request from controller {controller:int} with "
         "correlation id {correlation:int} since its controller epoch {controller_epoch:int} is "
         "old. Latest known controller epoch is {current:int}"),
)

BROKER_METADATA = (
    Form("cached", "Add {n:int} partitions and deleted {n_deleted:int} partitions from metadata "
         "cache in response to UpdateMetadata request sent by controller {controller:int} epoch "
         "{controller_epoch:int} with correlation id {correlation:int}", "2.6"),
    Form("cached_partition", "Cached leader info {record:any_record} for partition "
         "{partition:partition} in response to UpdateMetadata request sent by controller "
         "{controller:int} epoch {controller_epoch:int} with correlation id {correlation:int}"),
    Form("uncached_partition", "Deleted partition {partition:partition} from metadata cache in "
         "response to UpdateMetadata request sent by controller {controller:int} epoch "
         "{controller_epoch:int} with correlation id {correlation:int}"),
)

BEGINNINGS = (
    "Handling LeaderAndIsr request correlationId ", "Completed LeaderAndIsr request correlationId ",
    "Stopped fetchers as part of become-", "Truncated logs and checkpointed recovery boundaries ",
    "Started fetcher to new leader ", "Skipped the adding-fetcher step ",
    "Error while processing LeaderAndIsr request ", "Skipped the become-", "Skipped the update ",
    "Ignoring StopReplica request ", "Ignoring LeaderAndIsr request ", "Updating log for ",
    "Updating PartitionFetchState for ", "Received stop replica request from an old controller ",
    "PreRegister called. ", "Topic I", "A ZooKeeper client exception has occurred",
    "Received UpdateMetadataRequest ",
    "Received update metadata request with correlation id ", "The topic partition ",
    "Received StopReplica request ", "While handling full LeaderAndIsr request ", "Received Leader",
)
"""How broker messages begin that repeat what other lines say, or speak of no record."""

FORMS = Forms([
    *TRANSITIONS, *REQUESTS, *BROKER_REQUESTS, *BROKER_ROLES, *BROKER_METADATA,
    *(Form(NO_FACTS, f"{text}{{:rest}}") for text in BEGINNINGS),
])

DECISIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "partition_new": (("", "TRACE"), ("2.6", "INFO")),
    "partition_led": (("", "TRACE"), ("2.6", "INFO")),
    "partition_moved": (("", "TRACE"),),
    "replica_moved": (("", "TRACE"),),
    "shrunk": (("2.6", "INFO"),),
    "partition_failed": (("", "ERROR"),),
    "replica_failed": (("", "ERROR"),),
    "sent_leader_and_isr": (("2.6", "INFO"),),
    "sent_update_metadata": (("2.6", "INFO"),),
    "sent_stop_replica": (("2.6", "INFO"),),
    "sent_leader_and_isr_partition": (("", "TRACE"),),
    "sent_update_metadata_partition": (("", "TRACE"), ("2.6", "")),
    "sent_stop_replica_partition": (("2.6", "TRACE"),),
}
"""Kinds of lines that state a controller's decisions: from which release on at which level; "" is
that the release does not write them."""

WRITTEN_THERE = frozenset(form.kind for form in FORMS.forms) - {NO_FACTS}
"""Kinds of lines of state-change.log."""


def level_of(kind: str, release: str) -> str:
    """Level at which a release states a kind of decision; empty where it does not."""
    at, level = RELEASES.index(release), ""
    for since, changed in DECISIONS[kind]:
        if not since or at >= RELEASES.index(since):
            level = changed
    return level
