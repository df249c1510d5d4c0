package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Partitions and brokers as JSON, and which of them an event changed. */
final class LockstepState {
    private static final Uuid MIGRATING = new Uuid(0, 0);

    private final LockstepCluster cluster;
    private Map<String, ObjectNode> partitions = Map.of();
    private Map<String, ObjectNode> brokers = Map.of();

    LockstepState(LockstepCluster cluster) { this.cluster = cluster; }

    private Map<String, ObjectNode> describePartitions() {
        Map<String, ObjectNode> out = new TreeMap<>();
        cluster.topics.findAllTopicIds(Long.MAX_VALUE).forEach((name, id) -> {
            int n = cluster.topics.getTopic(id).numPartitions(Long.MAX_VALUE);
            for (int i = 0; i < n; i++) out.put(name + "-" + i, describe(cluster.topics.getPartition(id, i)));
        });
        return out;
    }

    private ObjectNode describe(PartitionRegistration p) {
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        out.set("replicas", LockstepNames.list(p.replicas));
        if (p.addingReplicas.length > 0) out.set("adding", LockstepNames.list(p.addingReplicas));
        if (p.removingReplicas.length > 0) out.set("removing", LockstepNames.list(p.removingReplicas));
        out.set("isr", LockstepNames.list(p.isr));
        if (p.elr.length > 0) out.set("elr", LockstepNames.list(p.elr));
        if (p.lastKnownElr.length > 0) out.set("last_known_elr", LockstepNames.list(p.lastKnownElr));
        out.put("leader", p.leader);
        if (p.leaderRecoveryState.value() != 0) out.put("recovery", "RECOVERING");
        out.put("leader_epoch", p.leaderEpoch).put("partition_epoch", p.partitionEpoch);
        for (Uuid directory : p.directories) {
            if (!directory.equals(MIGRATING)) {
                out.set("dirs", cluster.names.directoryLabels(List.of(p.directories)));
            }
        }
        return out;
    }

    private Map<String, ObjectNode> describeBrokers() {
        Map<String, ObjectNode> out = new TreeMap<>();
        Map<Integer, Long> offsets = new HashMap<>();
        BrokerHeartbeatManager heartbeats = cluster.brokers.heartbeatManager();
        heartbeats.brokers().forEach(b -> offsets.put(b.id(), metadataOffset(b)));
        for (BrokerRegistration b : cluster.brokers.brokerRegistrations().values()) {
            ObjectNode node = JsonNodeFactory.instance.objectNode();
            node.put("epoch", b.epoch()).put("incarnation", cluster.names.incarnationLabel(b.incarnationId()));
            b.rack().ifPresent(rack -> node.put("rack", rack));
            node.put("fenced", b.fenced()).put("in_controlled_shutdown", b.inControlledShutdown());
            if (!b.directories().isEmpty()) node.set("dirs", cluster.names.directoryLabels(b.directories()));
            if (offsets.containsKey(b.id())) {
                node.put("metadata_offset", offsets.get(b.id()));
                node.put("shutdown_offset", heartbeats.controlledShutdownOffset(b.id()).orElse(-1));
            }
            out.put(String.valueOf(b.id()), node);
        }
        return out;
    }

    /** A method from 4.0, a field before. */
    static long metadataOffset(BrokerHeartbeatManager.BrokerHeartbeatState broker) {
        try {
            if (Releases.has(broker, "metadataOffset")) return (long) Releases.call(broker, "metadataOffset");
            Field field = broker.getClass().getDeclaredField("metadataOffset");
            return field.getLong(broker);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    ObjectNode describeAll() {
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        describePartitions().forEach(out.putObject("partitions")::set);
        describeBrokers().forEach(out.putObject("brokers")::set);
        return out.put("next_offset", cluster.nextOffset);
    }

    /** What changed since the last call; null for what is gone. */
    void addChanges(ObjectNode out) {
        Map<String, ObjectNode> partitionsNow = describePartitions();
        Map<String, ObjectNode> brokersNow = describeBrokers();
        addChanges(out, "partitions", partitions, partitionsNow);
        addChanges(out, "brokers", brokers, brokersNow);
        partitions = partitionsNow;
        brokers = brokersNow;
    }

    private static void addChanges(
            ObjectNode out, String table, Map<String, ObjectNode> before, Map<String, ObjectNode> now) {
        ObjectNode changed = JsonNodeFactory.instance.objectNode();
        now.forEach((key, row) -> {
            if (!row.equals(before.get(key))) changed.set(key, row);
        });
        before.keySet().forEach(key -> {
            if (!now.containsKey(key)) changed.putNull(key);
        });
        if (!changed.isEmpty()) out.set(table, changed);
    }
}
