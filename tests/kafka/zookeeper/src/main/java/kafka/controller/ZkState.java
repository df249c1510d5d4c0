package kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a controller's context says, as JSON. */
final class ZkState {
    private ZkState() { }

    static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    static List<Integer> integers(JsonNode values) {
        List<Integer> out = new ArrayList<>();
        values.forEach(value -> out.add(value.asInt()));
        return out;
    }

    static void putAll(ArrayNode out, Iterable<?> values) {
        for (Object value : values) out.add(((Number) value).intValue());
    }

    /** The object of a name, made where it is not there. */
    static ObjectNode child(ObjectNode parent, String name) {
        return parent.has(name) ? (ObjectNode) parent.get(name) : parent.putObject(name);
    }

    private static void putNames(ArrayNode out, Iterable<?> values) {
        for (Object value : values) out.add(value.toString());
    }

    @SuppressWarnings("unchecked")
    private static <K, V> Map<K, V> map(ControllerContext context, String field) throws ReflectiveOperationException {
        return Scala.map((scala.collection.Map<K, V>) Fields.get(context, field));
    }

    @SuppressWarnings("unchecked")
    private static <T> Iterable<T> set(ControllerContext context, String field) throws ReflectiveOperationException {
        return Scala.set((scala.collection.Set<T>) Fields.get(context, field));
    }

    /** The whole of it. */
    static ObjectNode describe(KafkaController controller) throws ReflectiveOperationException {
        ControllerContext context = controller.controllerContext();
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        out.put("active", controller.isActive());
        if (!controller.isActive()) return out;
        out.put("controller_epoch", context.epoch()).put("epoch_store_version", context.epochZkVersion());
        out.put("offline_partition_count", context.offlinePartitionCount());
        Release.putImbalance(out, controller);
        ObjectNode brokers = out.putObject("brokers");
        ZkState.<Object, Object>map(context, "liveBrokerEpochs")
            .forEach((broker, epoch) -> brokers.put(broker.toString(), ((Number) epoch).longValue()));
        putAll(out.putArray("shutting_down"), set(context, "shuttingDownBrokerIds"));
        putNames(out.putArray("topics"), set(context, "allTopics"));
        putNames(out.putArray("queued"), set(context, "topicsToBeDeleted"));
        putNames(out.putArray("started"), set(context, "topicsWithDeletionStarted"));
        putNames(out.putArray("ineligible"), set(context, "topicsIneligibleForDeletion"));
        Map<String, ObjectNode> rows = new TreeMap<>();
        describePartitions(context, rows);
        describeReplicas(context, rows);
        ObjectNode partitions = out.putObject("partitions");
        rows.forEach(partitions::set);
        return out;
    }

    private static ObjectNode row(Map<String, ObjectNode> rows, Object partition) {
        return rows.computeIfAbsent(partition.toString(), name -> JsonNodeFactory.instance.objectNode());
    }

    private static void describePartitions(ControllerContext context, Map<String, ObjectNode> rows)
        throws ReflectiveOperationException {
        ZkState.<String, scala.collection.Map<Object, ReplicaAssignment>>map(context, "partitionAssignments")
            .forEach((topic, assignments) -> Scala.map(assignments).forEach((number, assignment) -> {
                ObjectNode row = row(rows, topic + "-" + number);
                putAll(row.putArray("replicas"), Scala.list(assignment.replicas()));
                putAll(row.putArray("adding"), Scala.list(assignment.addingReplicas()));
                putAll(row.putArray("removing"), Scala.list(assignment.removingReplicas()));
            }));
        ZkState.<TopicPartition, LeaderIsrAndControllerEpoch>map(context, "partitionLeadershipInfo")
            .forEach((partition, record) -> {
                ObjectNode row = row(rows, partition).put("controller_epoch", record.controllerEpoch());
                row.put("leader", record.leaderAndIsr().leader());
                row.put("leader_epoch", record.leaderAndIsr().leaderEpoch());
                Release.putVersion(row, record.leaderAndIsr());
                putAll(row.putArray("isr"), Scala.list(record.leaderAndIsr().isr()));
            });
        ZkState.<TopicPartition, PartitionState>map(context, "partitionStates")
            .forEach((partition, state) -> row(rows, partition).put("partition_state", state.state()));
        for (Object partition : set(context, "partitionsBeingReassigned"))
            row(rows, partition).put("being_reassigned", true);
    }

    private static void describeReplicas(ControllerContext context, Map<String, ObjectNode> rows)
        throws ReflectiveOperationException {
        ZkState.<PartitionAndReplica, ReplicaState>map(context, "replicaStates").forEach((replica, state) ->
            child(row(rows, replica.topicPartition()), "replica_states").put(String.valueOf(replica.replica()), state.state()));
        ZkState.<Object, scala.collection.Set<TopicPartition>>map(context, "replicasOnOfflineDirs")
            .forEach((broker, partitions) -> Scala.set(partitions).forEach(partition ->
                row(rows, partition).withArray("offline_dir").add((Integer) broker)));
    }
}
