"""Forms of controller.log: what a controller says of itself.

`NO_FACTS` is for messages about no partition, broker or epoch: they are counted, no more.
Source: the releases 0.10.0 to 3.9, read for how their messages look; logs of real clusters.
"""

from __future__ import annotations

from kfast.log_replay.wording.forms import Form, Forms

NO_FACTS = "states no facts"

ELECTION = (
    Form("elected", "{controller:int} successfully elected as the controller. Epoch incremented to "
         "{controller_epoch:int} and epoch zk version is now {epoch_version:int}", "2.1"),
    Form("elected", "{controller:int} successfully elected as the controller", "0.11", "2.0"),
    Form("epoch", "Controller {controller:int} incremented epoch to {controller_epoch:int}",
         "", "0.11"),
    Form("epoch", "Incremented epoch to {controller_epoch:int}", "1.0", "1.0"),
    Form("epoch", "Epoch incremented to {controller_epoch:int}", "1.1", "2.0"),
    Form("epoch_read", "Initialized controller epoch to {controller_epoch:int} and zk version "
         "{epoch_version:int}", "", "2.0"),
    Form("becoming", "Broker {controller:int} starting become controller state transition",
         "", "0.11"),
    Form("becoming", "Starting become controller state transition", "1.0", "1.0"),
    Form("becoming", "Registering handlers", "1.1"),
    Form("ready", "Broker {controller:int} is ready to serve as the new controller with epoch "
         "{controller_epoch:int}", "", "0.11"),
    Form("ready", "Ready to serve as the new controller with epoch {controller_epoch:int}", "1.0"),
    Form("scheduler_started", "Starting the controller scheduler"),
    Form("scheduler_started", "starting the controller scheduler"),
    Form("other_elected", "Broker {controller:int} has been elected as the controller, so stopping "
         "the election process.", "0.11"),
    Form("other_elected", "Broker {controller:int} was elected as controller instead of broker "
         "{self:int}", "0.11"),
    Form("process_started", "[ControllerEventThread controllerId={broker:int}] Starting", "1.0"),
    Form("process_started", "Controller starting up", "", "0.10"),
    Form(NO_FACTS, "[ControllerEventThread controllerId={:int}] {:rest}", "1.0"),
    Form("controller_moved", "Controller moved to another broker when processing {:rest}", "2.1"),
    Form("controller_moved", "Failed completing reassignment of partition {:word} because "
         "controller has moved to another broker", "2.1"),
    Form("controller_moved", "Error while electing or becoming controller on broker {:rest}"),
    Form("resigning", "Resigning", "1.0"),
    Form("resigning", "Controller resigning, broker id {self:int}", "", "0.11"),
    Form("resigned", "Resigned", "1.0"),
    Form("resigned", "Broker {self:int} resigned as the controller", "", "0.11"),
)

BROKERS = (
    Form("broker_epochs", "Initialized broker epochs cache: {epochs:epochs}", "2.2",
         fixed={"initial": True}),
    Form("broker_epochs", "Updated broker epochs cache: {epochs:epochs}", "2.2",
         fixed={"initial": False}),
    Form("active_brokers", "Currently active brokers in the cluster: {brokers:ids}"),
    Form("shutting_brokers", "Currently shutting brokers in the cluster: {brokers:ids}"),
    Form("broker_change", "Newly added brokers: {added:ids}, deleted brokers: {deleted:ids}, "
         "bounced brokers: {bounced:ids}, all live brokers: {live:ids}", "2.2"),
    Form("broker_change", "Newly added brokers: {added:ids}, deleted brokers: {deleted:ids}, "
         "all live brokers: {live:ids}", "", "2.1"),
    Form("broker_startup", "New broker startup callback for {brokers:ids}"),
    Form("broker_failure", "Broker failure callback for {brokers:ids}"),
    Form("no_longer_shutting", "Removed {brokers:ids} from list of shutting down brokers."),
    Form("shutdown", "Shutting down broker {broker:int}"),
    Form("all_shutting", "All shutting down brokers: {brokers:ids}"),
    Form("live_brokers", "Live brokers: {brokers:ids}"),
    Form("all_leaders", "All leaders = {leaders:leaders}"),
    Form("connected", "Controller {controller:int} connected to {:word}:{:int} (id: "
         "{broker:int} rack: {:rest}) for sending state change requests"),
    Form("broker_modified", "Updated broker metadata: {:rest}", "2.3"),
    Form("broker_modified", "Updated broker: {:rest}", "1.1", "2.2"),
    Form("log_dir_failure", "Handling log directory failure for brokers {brokers:ids}", "2.2"),
    Form("send_failed", "Controller {controller:int} epoch {controller_epoch:int} fails to send "
         "request ({request:dump}) to broker {:word}:{:int} (id: {broker:int} rack: {:text}). "
         "Reconnecting to broker."),
    Form(NO_FACTS, "Controller {:int} epoch {:int} fails to send request {:rest}"),
    Form("not_sent", "Not sending request ({request:dump}) to broker {broker:int}, since it is "
         "offline."),
)

TOPICS = (
    Form("topics", "Current list of topics in the cluster: {topics:names}"),
    Form("new_topics", "New topics: [{topics:names}], deleted topics: [{deleted:names}], new "
         "partition replica assignment [{assignments:assignments}]"),
    Form("new_partitions", "New partition creation callback for {partitions:partitions}"),
    Form("partitions_added", "New partitions to be added {assignments:assignments}"),
    Form("topics_to_delete", "List of topics to be deleted: {topics:names}"),
    Form("topics_ineligible", "List of topics ineligible for deletion: {topics:names}"),
    Form("deletion_init", "Initializing manager with initial deletions: {topics:names}, initial "
         "ineligible deletions: {ineligible:names}", "2.3"),
    Form("delete_topics", "Starting topic deletion for topics {topics:names}"),
    Form("delete_fired", "Delete topics listener fired for topics {topics:names} to be deleted"),
    Form("delete_unknown", "Ignoring request to delete non-existing topics {topics:names}"),
    Form("delete_disabled", "Removing {:rest} since delete topic is disabled"),
    Form("deletion_handled", "Handling deletion for topics {topics:names}"),
    Form("deletion_started", "Deletion of topic {topic:word} (re)started"),
    Form("deletion_done", "Deletion of topic {topic:word} successfully completed"),
    Form("replicas_deleted", "Deletion successfully completed for replicas {replicas:replicas}"),
    Form("replicas_successful", "Invoking state change to ReplicaDeletionSuccessful for replicas "
         "{replicas:replicas}", "", "1.0"),
    Form("deletion_failed", "Deletion failed for replicas {replicas:replicas}. Halting deletion "
         "for topics {:rest}"),
    Form("deletion_halted", "Halted deletion of topics {topics:names} due to replica deletion "
         "failure", "2.3", fixed={"failed": True}),
    Form("deletion_halted", "Halted deletion of topics {topics:names} due to {:rest}", "2.3"),
    Form("deletion_halted", "Halted deletion of topics {topics:names}", "", "2.2"),
    Form("stop_response", "Delete topic callback invoked on StopReplica response received from "
         "broker {broker:int}: request error = {error:word}, partition errors = {errors:errors}",
         "2.3"),
    Form("deletion_answered", "Delete topic callback invoked for {:rest}"),
    Form(NO_FACTS, "Topic deletion callback for {:rest}"),
    Form(NO_FACTS, "Partition deletion callback for {:rest}"),
    Form(NO_FACTS, "Deletion started for replicas {:rest}"),
    Form(NO_FACTS, "Dead Replicas ({:rest}"),
    Form(NO_FACTS, "Deletion for replicas {:rest}"),
    Form(NO_FACTS, "Retrying delet{:rest}"),
    Form(NO_FACTS, "Not retrying deletion of topic {:rest}"),
    Form(NO_FACTS, "Waiting for signal to start or continue topic deletion"),
    Form(NO_FACTS, "Restoring the partition replica assignment for topic {:rest}"),
    Form(NO_FACTS, "New topic creation callback for {:rest}"),
    Form(NO_FACTS, "Partition modification triggered {:rest}"),
    Form(NO_FACTS, "Are all replicas for topic {:rest}"),
    Form("queued_replicas_up", "Some replicas {:rest}"),
)

PARTITIONS = (
    Form("elects_unclean", "No broker in ISR is alive for {partition:partition}. {:rest}", "",
         "1.0"),
    Form("last_isr_kept", "Retaining last ISR {broker:int} of partition {partition:partition} "
         "since unclean leader election is disabled", "", "1.0"),
    Form("replica_states", "Started replica state machine with initial state -> "
         "{states:replica_states}"),
    Form("partition_states", "Started partition state machine with initial state -> "
         "{states:partition_states}"),
    Form("isr_updating", "Updating ISRs for partitions: {partitions:partitions}.", "2.7"),
    Form("isr_updated", "ISR for partition {partition:partition} updated to [{isr:ids}] and "
         "zkVersion updated to [{version:int}]", "2.7", "3.2"),
    Form("isr_record", "ISR for partition {partition:partition} updated to {record:any_record}.",
         "3.3"),
    Form("without_record", "Leader not yet assigned for partition {partition:partition}. Skip "
         "sending UpdateMetadataRequest."),
    Form("isr_failed", "Failed to update ISR for partition {:rest}", "2.7"),
    Form("isr_notified", "Sending MetadataRequest to Brokers:{:text}for Topic{:word}: "
         "{partitions:partitions}"),
    Form("isr_notified", "Sending MetadataRequest to Brokers:{:text}for TopicAndPartitions:"
         "{partitions:partitions}", "", "1.0"),
    Form("rebalance", "Processing automatic preferred replica leader election", "2.3"),
    Form("rebalance_check", "Checking need to trigger auto leader balancing", "0.11"),
    Form("rebalance_check", "checking need to trigger partition rebalance", "", "0.10"),
    Form("not_preferred", "Topics not in preferred replica for broker {broker:int} "
         "{partitions:lists}", "1.1"),
    Form("not_preferred_any", "Topics not in preferred replica {partitions:lists}",
         "0.11", "1.0"),
    Form("not_preferred_any", "topics not in preferred replica {partitions:lists}", "", "0.10"),
    Form("ratio", "Leader imbalance ratio for broker {broker:int} is {ratio:float}", "0.11"),
    Form("ratio", "leader imbalance ratio for broker {broker:int} is {ratio:float}", "", "0.10"),
    Form("preferred_replicas", "Preferred replicas by broker {brokers:preferred}", "", "2.4"),
    Form("preferred_replicas", "preferred replicas by broker {brokers:preferred}", "", "0.10"),
    Form("election", "Starting replica leader election ({type:word}) for partitions "
         "{partitions:partitions} triggered by {trigger:word}", "2.4"),
    Form("election", "Starting preferred replica leader election for partitions "
         "{partitions:partitions}", "", "2.3", {"type": "PREFERRED", "trigger": ""}),
    Form("preferred_done", "Partition {partition:partition} completed preferred replica leader "
         "election. New leader is {leader:int}"),
    Form("preferred_failed", "Partition {partition:partition} failed to complete preferred replica "
         "leader election to {preferred:int}. Leader is still {leader:int}", "2.0"),
    Form("preferred_failed", "Partition {partition:partition} failed to complete preferred replica "
         "leader election. Leader is {leader:int}", "", "1.1"),
    Form("pending_elections", "Resuming preferred replica election for partitions: "
         "{partitions:partitions}"),
    Form(NO_FACTS, "Partitions undergoing preferred replica election: {:rest}"),
    Form(NO_FACTS, "Partitions that completed preferred replica election: {:rest}"),
    Form("epoch_updated", "Updated leader epoch for partition {partition:partition} to "
         "{leader_epoch:int}, zkVersion={version:int}", "2.7"),
    Form("epoch_updated", "Updated leader epoch for partition {partition:partition} to "
         "{leader_epoch:int}", "", "3.1"),
    Form("shrunk_old", "New leader and ISR for partition {partition:partition} is "
         "{record:any_record}", "", "1.0"),
    Form("selects_leader", "Selected new leader and ISR {record:any_record} for offline partition "
         "{partition:partition}", "", "1.0"),
    Form("store_record", "Cannot remove replica {replica:int} from ISR of partition "
         "{partition:partition} since it is not in the ISR. {record:any_record}", "", "1.0"),
    Form(NO_FACTS, "Updating leader epoch for partition {:rest}"),
    Form("unclean_enabled", "Unclean leader election has been enabled by default", "2.3"),
    Form("unclean_enabled_topic", "Unclean leader election has been enabled for topic "
         "{topic:word}", "2.3"),
)

REASSIGNMENT = (
    Form("assignment_updating", "Updating assignment of partition {partition:partition} from "
         "{before:assignment} to {after:assignment}", "2.4"),
    Form("assignment_stored", "Successfully updated assignment of partition {partition:partition} "
         "to {assignment:assignment}", "2.4"),
    Form("assignment_stored", "Updated assigned replicas for partition {partition:partition} being "
         "reassigned to {assignment:assignment}", "", "2.3"),
    Form("reassign", "Handling reassignment of partition {partition:partition} to new replicas "
         "{replicas:ids}", "", "2.3"),
    Form("caught_up", "Target replicas {replicas:ids} have all caught up with the leader for "
         "reassigning partition {partition:partition}", "2.4"),
    Form("caught_up", "{:int}/{:int} replicas have caught up with the leader for partition "
         "{partition:partition} being reassigned.{:text}Resuming partition reassignment",
         "", "2.3"),
    Form("not_caught_up", "{:int}/{:int} replicas have caught up with the leader for partition "
         "{partition:partition} being reassigned.{:rest}", "", "2.3"),
    Form("reassign_leader", "Leader {leader:int} for partition {partition:partition} being "
         "reassigned, is already in the new list of replicas {replicas:ids} and is alive"),
    Form("reassign_leader", "Leader {leader:int} for partition {partition:partition} being "
         "reassigned, is not in the new list of replicas {replicas:ids}. Re-electing leader"),
    Form("reassign_leader", "Leader {leader:int} for partition {partition:partition} being "
         "reassigned, is already in the new list of replicas {replicas:ids} but is dead"),
    Form("reassign_resumed", "Resuming reassignment of partitions: {:rest}", "", "1.0"),
    Form("reassign_waits", "New replicas {:text}for partition {partition:partition} being "
         "reassigned not yet caught up with the leader", "", "2.3"),
    Form(NO_FACTS, "Waiting for new replicas {:rest}", "", "2.3"),
    Form(NO_FACTS, "Partitions being reassigned: {:rest}", "", "2.3"),
    Form(NO_FACTS, "Partitions already reassigned: {:rest}", "", "1.0"),
    Form(NO_FACTS, "Removed partition {:rest}", "", "1.0"),
    Form(NO_FACTS, "Removing partition{:rest}"),
    Form(NO_FACTS, "No more partitions need to be reassigned. {:rest}"),
    Form(NO_FACTS, "Error completing reassignment of partition {:rest}"),
    Form(NO_FACTS, "Partition {partition:partition} to be reassigned is already assigned to "
         "{:rest}"),
    Form(NO_FACTS, "Skipping reassignment of {:rest}"),
    Form(NO_FACTS, "Ignoring request to reassign partition {:rest}"),
)

FIXED_MESSAGES = (
    "Starting", "Started", "Stopped", "Shutting down", "Shutdown completed",
    "Deleting log dir event notifications", "Deleting isr change notifications",
    "Initializing controller context", "Fetching topic deletions in progress",
    "Initializing topic deletion manager", "Sending update metadata request",
    "Initializing replica state", "Triggering online replica state changes",
    "Triggering offline replica state changes", "Initializing partition state",
    "Triggering online partition state changes", "starting the partition rebalance scheduler",
    "starting the token expiry check scheduler", "Stopped partition state machine",
    "Stopped replica state machine", "Controller startup complete",
    "Reading controller epoch from ZooKeeper", "Incrementing controller epoch in ZooKeeper",
    "ZK expired; shut down all controller components and try to re-elect",
    "Fired!!!", "ISR change notification listener fired",
    "Ignoring partition change during topic deletion as no new partitions are added",
    "Controller has already moved when trying to trigger controller movement",
    "Controller shutdown complete", "Forcing the controller to resign",
)
"""Whole messages that say nothing of the cluster."""

BEGINNINGS = (
    "preRegister called. ", "shutdownInitiated latch count reached zero",
    "Register BrokerModifications handler for ",
    "Unregister BrokerModifications handler for ", "Controller {:int} trying to connect to broker ",
    "Controller {:int}'s connection to broker ", "Controller {:int} fails to send a request to ",
    "Creating FeatureZNode ", "Updating FeatureZNode ", "FeatureZNode at path",
    "Invoking state change to ", "Broker change listener fired ", "Topic change listener fired ",
    "Partitions reassigned listener fired ", "Reassigned partitions isr change listener fired ",
    "Preferred replica election listener fired ", "These partitions are already undergoing ",
    "Skipping preferred replica election ", "Skipping replica leader election ",
    "Waiting for any successful result ", "Error completing replica leader election ",
    "Error completing preferred replica leader election ", "PreferredReplicaLeaderElection waiting",
    "Skipping preferred replica leader election ", "Skipping adding partitions ",
    "Removing replica ", "Cannot remove replica ", "Updated path ",
    "No broker in ISR is alive ", "Some broker in ISR is alive ", "Selected new leader and ISR ",
    "Current leader ", "Partition {:partition} : current leader = ",
    "After leader election, leader ",
    "Live assigned replicas for partition ", "Initializing leader and isr for partition ",
    "The stop replica request (delete = ",
    "Controller failed to ", "Rejecting Alter", "Ignoring Alter",
    "Error when processing Alter", "Error while ", "Error processing event ", "Error handling ",
    "Uncaught error processing event ",
    "A controller has been elected but just resigned", "Retrying leader election with strategy ",
    "Registering IsrChangeNotificationListener", "De-registering IsrChangeNotificationListener",
    "Registering logDirEventNotificationListener", "De-registering logDirEventNotificationListener",
    "Initializing a new session to ", "Waiting until connected", "Connected", "Closing", "Closed",
    "Received event: ", "Session expired", "Broker info update callback for ",
    "Ignoring registration of ", "Handling deletion", "Failed reassignment ",
    "Failed completing reassignment ", "ZK expired, but ", "I should never have been asked",
    "Ignoring AllocateProducerIds ", "Processing of feature updates", "Broker {:int} epoch ",
    "Controller has been shut down", "Failed to parse the controller info", "Read current producer",
    "There is no producerId block yet", "Acquired new producerId block ",
    "Adding replica (", "Haven't been able to send ", "Delete topics listener fired",
)
"""How messages begin that say nothing that is not said elsewhere."""

FORMS = Forms([
    *ELECTION, *BROKERS, *TOPICS, *PARTITIONS, *REASSIGNMENT,
    *(Form(NO_FACTS, text) for text in FIXED_MESSAGES),
    *(Form(NO_FACTS, f"{text}{{:rest}}") for text in BEGINNINGS),
])
