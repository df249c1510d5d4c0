package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.StaleBrokerEpochException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsAssignment;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsTopic;
import org.apache.kafka.common.message.CreatePartitionsResponseData.CreatePartitionsTopicResult;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ElectLeadersResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;

import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Map.Entry;
import java.util.OptionalLong;
import java.util.Set;

/** An event as Kafka's request, and the response as JSON. */
final class LockstepRequests {
    private final LockstepCluster cluster;
    private final LockstepNames names;

    LockstepRequests(LockstepCluster cluster) {
        this.cluster = cluster;
        this.names = cluster.names;
    }

    ControllerResult<ObjectNode> run(JsonNode e) throws Exception {
        switch (e.get("op").asText()) {
            case "advance_time": return advanceTime(e);
            case "failover":
                cluster.failOver();
                return nothing();
            case "register_broker": return registerBroker(e);
            case "heartbeat": return heartbeat(e);
            case "fence_stale": return task("maybeFenceOneStaleBroker");
            case "balance_leaders": return task("maybeBalancePartitionLeaders");
            case "elect_unclean_leaders": return task("maybeElectUncleanLeaders");
            case "unregister_broker":
                return ControllerResult.of(cluster.topics.unregisterBroker(e.get("broker").asInt()).records(), null);
            case "create_topics": return createTopics(e);
            case "create_partitions": return createPartitions(e);
            case "delete_topics": return deleteTopics(e);
            case "alter_partition": return alterPartition(e);
            case "elect_leaders": return electLeaders(e);
            case "alter_partition_reassignments": return alterPartitionReassignments(e);
            case "assign_replicas_to_dirs": return assignReplicasToDirs(e);
            case "incremental_alter_configs": return incrementalAlterConfigs(e);
            case "update_features": return updateFeatures(e);
            default: throw new IllegalArgumentException("no such event: " + e);
        }
    }

    private static ControllerResult<ObjectNode> nothing() { return ControllerResult.of(List.of(), null); }

    private static ObjectNode object() { return JsonNodeFactory.instance.objectNode(); }

    private static String error(short code) { return Errors.forCode(code).name(); }

    static ControllerRequestContext context(int version) {
        return new ControllerRequestContext(new RequestHeaderData().setRequestApiVersion((short) version),
            KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    /** The id of a topic, or one that no topic has. */
    private Uuid topicId(String topic) {
        Uuid id = cluster.topics.getTopicId(topic);
        return id != null ? id : new Uuid(0x5eedL, topic.hashCode() | 1L << 40);
    }

    // -------------------------------------------------------------------------------------- brokers and time

    private ControllerResult<ObjectNode> advanceTime(JsonNode e) throws Exception {
        cluster.time.sleep(e.get("ms").asLong());
        for (JsonNode broker : e.path("contacts")) cluster.contact(broker.asInt());
        return nothing();
    }

    /** Before 4.0 the fencing task has no response: it is called again while it writes something. */
    private ControllerResult<ObjectNode> task(String name) throws Exception {
        ControllerResult<?> result = (ControllerResult<?>) Releases.call(cluster.topics, name);
        boolean more = result.response() == null ? !result.records().isEmpty() : (boolean) result.response();
        return ControllerResult.of(result.records(), object().put("more", more));
    }

    private ControllerResult<ObjectNode> registerBroker(JsonNode e) throws Exception {
        int id = e.get("broker").asInt();
        BrokerRegistrationRequestData request = new BrokerRegistrationRequestData().
            setBrokerId(id).
            setClusterId(e.path("cluster_id").asText(LockstepCluster.CLUSTER_ID)).
            setIncarnationId(names.incarnation(e.get("incarnation").asText())).
            setRack(e.hasNonNull("rack") ? e.get("rack").asText() : null).
            setLogDirs(names.directories(e.path("log_dirs"))).
            setPreviousBrokerEpoch(e.path("previous_broker_epoch").asLong(-1));
        request.listeners().add(new BrokerRegistrationRequestData.Listener().
            setName("PLAINTEXT").setHost("b" + id).setPort(9092).setSecurityProtocol((short) 0));
        Map<String, short[]> supported = new LinkedHashMap<>();
        if (e.has("features")) {
            e.get("features").fields().forEachRemaining(f -> supported.put(f.getKey(),
                new short[] {(short) f.getValue().get(0).asInt(), (short) f.getValue().get(1).asInt()}));
        } else {
            LockstepCluster.supportedFeatures().forEach((name, range) ->
                supported.put(name, new short[] {range.min(), range.max()}));
        }
        supported.forEach((name, range) -> request.features().add(new BrokerRegistrationRequestData.Feature().
            setName(name).setMinSupportedVersion(range[0]).setMaxSupportedVersion(range[1])));
        Map<String, Short> finalized =
            new HashMap<>(cluster.features.finalizedFeatures(Long.MAX_VALUE).featureMap());
        finalized.put("kraft.version", (short) 1);
        ControllerResult<?> result = (ControllerResult<?>) Releases.call(cluster.brokers, "registerBroker", request,
            cluster.nextOffset, new FinalizedControllerFeatures(finalized, Long.MAX_VALUE),
            e.path("request_version").asInt(4) >= 3);
        long epoch = ((BrokerRegistrationReply) result.response()).epoch();
        return ControllerResult.of(result.records(), object().put("broker_epoch", epoch));
    }

    private ControllerResult<ObjectNode> heartbeat(JsonNode e) throws Exception {
        int id = e.get("broker").asInt();
        BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData().
            setBrokerId(id).
            setBrokerEpoch(e.get("broker_epoch").asLong()).
            setCurrentMetadataOffset(e.get("metadata_offset").asLong()).
            setWantFence(e.path("want_fence").asBoolean()).
            setWantShutDown(e.path("want_shut_down").asBoolean()).
            setOfflineLogDirs(names.directories(e.path("offline_log_dirs")));
        if (Releases.has(cluster.brokers, "trackBrokerHeartbeat")) {
            Releases.call(cluster.brokers, "trackBrokerHeartbeat", id, request.brokerEpoch());
        }
        OptionalLong offset = cluster.brokers.registerBrokerRecordOffset(id);
        if (offset.isEmpty()) throw new StaleBrokerEpochException("not registered");
        ControllerResult<BrokerHeartbeatReply> result =
            cluster.topics.processBrokerHeartbeat(request, offset.getAsLong());
        BrokerHeartbeatReply reply = result.response();
        if (reply.inControlledShutdown()) cluster.shuttingDown = id;
        return ControllerResult.of(result.records(), object().
            put("caught_up", reply.isCaughtUp()).
            put("fenced", reply.isFenced()).
            put("in_controlled_shutdown", reply.inControlledShutdown()).
            put("should_shut_down", reply.shouldShutDown()));
    }

    // ---------------------------------------------------------------------------------------------- topics

    @SuppressWarnings("unchecked")
    private ControllerResult<ObjectNode> createTopics(JsonNode e) throws Exception {
        CreateTopicsRequestData request = new CreateTopicsRequestData().
            setValidateOnly(e.path("validate_only").asBoolean());
        names.requested = new HashMap<>();
        for (JsonNode t : e.get("topics")) {
            CreateTopicsRequestData.CreatableTopic topic = new CreateTopicsRequestData.CreatableTopic().
                setName(t.get("name").asText()).
                setNumPartitions(t.path("num_partitions").asInt(-1)).
                setReplicationFactor((short) t.path("replication_factor").asInt(-1));
            for (JsonNode a : t.path("assignments")) {
                topic.assignments().mustAdd(new CreateTopicsRequestData.CreatableReplicaAssignment().
                    setPartitionIndex(a.get(0).asInt()).setBrokerIds(LockstepNames.ints(a.get(1))));
            }
            t.path("configs").fields().forEachRemaining(c -> topic.configs().add(
                new CreateTopicsRequestData.CreatableTopicConfig().setName(c.getKey()).
                    setValue(c.getValue().isNull() ? null : c.getValue().asText())));
            request.topics().add(topic);
            names.requested.put(topic.name(), Uuid.fromString(t.get("topic_id").asText()));
        }
        ControllerResult<CreateTopicsResponseData> result = (ControllerResult<CreateTopicsResponseData>)
            Releases.call(cluster.topics, "createTopics", context(7), request, Set.of());
        ObjectNode response = object();
        result.response().topics().forEach(t -> response.put(t.name(), error(t.errorCode())));
        return ControllerResult.of(result.records(), response);
    }

    private ControllerResult<ObjectNode> createPartitions(JsonNode e) {
        names.requested = new HashMap<>();
        List<CreatePartitionsTopic> request = new ArrayList<>();
        for (JsonNode t : e.get("topics")) {
            List<CreatePartitionsAssignment> assignments = new ArrayList<>();
            for (JsonNode a : t.get("assignments")) {
                assignments.add(new CreatePartitionsAssignment().setBrokerIds(LockstepNames.ints(a)));
            }
            request.add(new CreatePartitionsTopic().setName(t.get("name").asText()).
                setCount(t.get("count").asInt()).setAssignments(assignments));
        }
        ControllerResult<List<CreatePartitionsTopicResult>> result =
            cluster.topics.createPartitions(context(3), request);
        ObjectNode response = object();
        for (CreatePartitionsTopicResult t : result.response()) response.put(t.name(), error(t.errorCode()));
        return ControllerResult.of(result.records(), response);
    }

    private ControllerResult<ObjectNode> deleteTopics(JsonNode e) {
        Map<Uuid, String> ids = new LinkedHashMap<>();
        for (JsonNode t : e.get("topics")) ids.put(topicId(t.asText()), t.asText());
        ControllerResult<Map<Uuid, ApiError>> result = cluster.topics.deleteTopics(context(6), ids.keySet());
        ObjectNode response = object();
        ids.forEach((id, name) -> response.put(name, result.response().get(id).error().name()));
        return ControllerResult.of(result.records(), response);
    }

    // ------------------------------------------------------------------------------------------ partitions

    private ControllerResult<ObjectNode> alterPartition(JsonNode e) throws Exception {
        int version = e.path("request_version").asInt(3);
        AlterPartitionRequestData request = new AlterPartitionRequestData().
            setBrokerId(e.get("broker").asInt()).setBrokerEpoch(e.get("broker_epoch").asLong());
        Map<Object, String> labels = new HashMap<>();
        for (JsonNode t : e.get("topics")) {
            String name = t.get("topic").asText();
            AlterPartitionRequestData.TopicData topic = new AlterPartitionRequestData.TopicData();
            if (version < 2) {
                Releases.call(topic, "setTopicName", name);
            } else {
                topic.setTopicId(topicId(name));
            }
            labels.put(topic.topicId(), name);
            for (JsonNode p : t.get("partitions")) topic.partitions().add(isrOf(p, version));
            request.topics().add(topic);
        }
        ControllerResult<AlterPartitionResponseData> result =
            cluster.topics.alterPartition(context(version), request);
        ObjectNode response = object();
        for (AlterPartitionResponseData.TopicData t : result.response().topics()) {
            String name = version < 2 ? (String) Releases.call(t, "topicName") : labels.get(t.topicId());
            for (AlterPartitionResponseData.PartitionData p : t.partitions()) {
                ObjectNode node = response.putObject(name + "-" + p.partitionIndex());
                node.put("error", error(p.errorCode()));
                if (p.errorCode() == 0) {
                    node.put("leader", p.leaderId()).put("leader_epoch", p.leaderEpoch()).
                        put("partition_epoch", p.partitionEpoch()).put("recovery", p.leaderRecoveryState());
                    node.set("isr", LockstepNames.list(p.isr()));
                }
            }
        }
        return ControllerResult.of(result.records(), response);
    }

    private static AlterPartitionRequestData.PartitionData isrOf(JsonNode p, int version) {
        List<Integer> members = new ArrayList<>();
        List<AlterPartitionRequestData.BrokerState> withEpochs = new ArrayList<>();
        for (JsonNode member : p.get("isr")) {
            members.add(member.get(0).asInt());
            withEpochs.add(new AlterPartitionRequestData.BrokerState().
                setBrokerId(member.get(0).asInt()).setBrokerEpoch(member.get(1).asLong()));
        }
        AlterPartitionRequestData.PartitionData out = new AlterPartitionRequestData.PartitionData().
            setPartitionIndex(p.get("partition").asInt()).
            setLeaderEpoch(p.get("leader_epoch").asInt()).
            setPartitionEpoch(p.get("partition_epoch").asInt()).
            setLeaderRecoveryState((byte) p.path("recovery").asInt(0));
        return version < 3 ? out.setNewIsr(members) : out.setNewIsrWithEpochs(withEpochs);
    }

    private ControllerResult<ObjectNode> electLeaders(JsonNode e) {
        ElectLeadersRequestData request =
            new ElectLeadersRequestData().setElectionType((byte) e.get("type").asInt());
        if (e.get("partitions").isNull()) {
            request.setTopicPartitions(null);
        } else {
            e.get("partitions").fields().forEachRemaining(t -> request.topicPartitions().add(
                new ElectLeadersRequestData.TopicPartitions().setTopic(t.getKey()).
                    setPartitions(LockstepNames.ints(t.getValue()))));
        }
        ControllerResult<ElectLeadersResponseData> result = cluster.topics.electLeaders(request);
        ObjectNode response = object();
        result.response().replicaElectionResults().forEach(t -> t.partitionResult().forEach(p ->
            response.put(t.topic() + "-" + p.partitionId(), error(p.errorCode()))));
        return ControllerResult.of(result.records(), response);
    }

    private ControllerResult<ObjectNode> alterPartitionReassignments(JsonNode e) throws Exception {
        AlterPartitionReassignmentsRequestData request = new AlterPartitionReassignmentsRequestData();
        if (e.has("allow_rf_change")) {
            Releases.set(request, "setAllowReplicationFactorChange", e.get("allow_rf_change").asBoolean());
        }
        for (JsonNode t : e.get("topics")) {
            AlterPartitionReassignmentsRequestData.ReassignableTopic topic =
                new AlterPartitionReassignmentsRequestData.ReassignableTopic().setName(t.get("topic").asText());
            for (JsonNode p : t.get("partitions")) {
                topic.partitions().add(new AlterPartitionReassignmentsRequestData.ReassignablePartition().
                    setPartitionIndex(p.get("partition").asInt()).
                    setReplicas(p.get("replicas").isNull() ? null : LockstepNames.ints(p.get("replicas"))));
            }
            request.topics().add(topic);
        }
        ControllerResult<AlterPartitionReassignmentsResponseData> result =
            cluster.topics.alterPartitionReassignments(request);
        ObjectNode response = object();
        result.response().responses().forEach(t -> t.partitions().forEach(p ->
            response.put(t.name() + "-" + p.partitionIndex(), error(p.errorCode()))));
        return ControllerResult.of(result.records(), response);
    }

    private ControllerResult<ObjectNode> assignReplicasToDirs(JsonNode e) {
        AssignReplicasToDirsRequestData request = new AssignReplicasToDirsRequestData().
            setBrokerId(e.get("broker").asInt()).setBrokerEpoch(e.get("broker_epoch").asLong());
        Map<Uuid, String> labels = new HashMap<>();
        for (JsonNode d : e.get("dirs")) {
            AssignReplicasToDirsRequestData.DirectoryData directory =
                new AssignReplicasToDirsRequestData.DirectoryData().setId(names.directory(d.get("dir")));
            for (JsonNode t : d.get("topics")) {
                Uuid id = topicId(t.get("topic").asText());
                labels.put(id, t.get("topic").asText());
                AssignReplicasToDirsRequestData.TopicData topic =
                    new AssignReplicasToDirsRequestData.TopicData().setTopicId(id);
                for (JsonNode p : t.get("partitions")) {
                    topic.partitions().add(
                        new AssignReplicasToDirsRequestData.PartitionData().setPartitionIndex(p.asInt()));
                }
                directory.topics().add(topic);
            }
            request.directories().add(directory);
        }
        ControllerResult<AssignReplicasToDirsResponseData> result =
            cluster.topics.handleAssignReplicasToDirs(request);
        ObjectNode response = object();
        result.response().directories().forEach(d -> d.topics().forEach(t -> t.partitions().forEach(p ->
            response.put(names.directoryLabel(d.id()) + ":" + labels.get(t.topicId()) + "-" + p.partitionIndex(),
                error(p.errorCode())))));
        return ControllerResult.of(result.records(), response);
    }

    // --------------------------------------------------------------------------- configurations and features

    @SuppressWarnings("unchecked")
    private ControllerResult<ObjectNode> incrementalAlterConfigs(JsonNode e) throws Exception {
        Map<ConfigResource, Map<String, Entry<OpType, String>>> changes = new LinkedHashMap<>();
        for (JsonNode r : e.get("resources")) {
            Map<String, Entry<OpType, String>> ops = new LinkedHashMap<>();
            for (JsonNode o : r.get("ops")) {
                ops.put(o.get(0).asText(), new SimpleImmutableEntry<>(
                    OpType.valueOf(o.get(1).asText().toUpperCase()), o.get(2).isNull() ? null : o.get(2).asText()));
            }
            boolean topic = r.get("type").asText().equals("topic");
            changes.put(new ConfigResource(topic ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER,
                r.get("name").asText()), ops);
        }
        ControllerResult<Map<ConfigResource, ApiError>> result = (ControllerResult<Map<ConfigResource, ApiError>>)
            Releases.call(cluster.configs, "incrementalAlterConfigs", changes, false);
        ObjectNode response = object();
        changes.keySet().forEach(c -> response.put(c.type().name().toLowerCase() + ":" + c.name(),
            result.response().get(c).error().name()));
        return ControllerResult.of(result.records(), response);
    }

    private ControllerResult<ObjectNode> updateFeatures(JsonNode e) throws Exception {
        Map<String, Short> updates = new LinkedHashMap<>();
        Map<String, FeatureUpdate.UpgradeType> types = new HashMap<>();
        e.get("updates").fields().forEachRemaining(u -> updates.put(u.getKey(), (short) u.getValue().asInt()));
        e.path("types").fields().forEachRemaining(u -> types.put(u.getKey(),
            FeatureUpdate.UpgradeType.valueOf(u.getValue().asText().toUpperCase())));
        Object manager = Releases.has(cluster.configs, "updateFeatures") ? cluster.configs : cluster.features;
        ControllerResult<?> result = (ControllerResult<?>)
            Releases.call(manager, "updateFeatures", updates, types, false, 1);
        ObjectNode response = object();
        if (result.response() instanceof ApiError) {
            response.put("error", ((ApiError) result.response()).error().name());
        } else {
            // Before 4.0 every feature has its own answer; an event changes one.
            ((Map<?, ?>) result.response()).values().forEach(
                error -> response.put("error", ((ApiError) error).error().name()));
        }
        return ControllerResult.of(result.records(), response);
    }
}
