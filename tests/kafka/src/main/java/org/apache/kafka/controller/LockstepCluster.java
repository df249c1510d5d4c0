package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.timeline.SnapshotRegistry;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Map.Entry;
import java.util.concurrent.TimeUnit;

/** Kafka's managers, wired as QuorumController wires them: an event is decided, then its records are replayed. */
final class LockstepCluster {
    static final String CLUSTER_ID = "lockstep";

    final LockstepClock time = new LockstepClock();
    final LockstepNames names = new LockstepNames();
    final FeatureControlManager features;
    final ClusterControlManager brokers;
    final ConfigurationControlManager configs;
    final ReplicationControlManager topics;
    long nextOffset = 0;
    /** Set by a heartbeat of a broker in controlled shutdown. */
    int shuttingDown = -1;

    private final LockstepRecords records = new LockstepRecords(names);
    private final LockstepState state = new LockstepState(this);
    private final LockstepRequests requests = new LockstepRequests(this);

    LockstepCluster(JsonNode given) throws Exception {
        LogContext log = new LogContext();
        SnapshotRegistry snapshots = new SnapshotRegistry(log);
        int nodeId = given.get("controller_id").asInt();
        features = makeFeatures(log, snapshots, nodeId);
        brokers = makeBrokers(log, snapshots, given.get("session_timeout_ms").asLong());
        configs = makeConfigs(log, snapshots, nodeId, given.get("static_config"));
        topics = new ReplicationControlManager.Builder().
            setSnapshotRegistry(snapshots).
            setLogContext(log).
            setMaxElectionsPerImbalance(given.get("max_elections").asInt()).
            setConfigurationControl(configs).
            setClusterControl(brokers).
            setFeatureControl(features).
            build();
        for (JsonNode record : given.get("records")) {
            replay(records.parse(record, supportedFeatures()), nextOffset++);
        }
        brokers.activate();
        state.addChanges(JsonNodeFactory.instance.objectNode());
    }

    private FeatureControlManager makeFeatures(LogContext log, SnapshotRegistry snapshots, int nodeId)
            throws Exception {
        FeatureControlManager.Builder builder = new FeatureControlManager.Builder().
            setLogContext(log).
            setSnapshotRegistry(snapshots).
            setQuorumFeatures(new QuorumFeatures(nodeId, supportedFeatures(), List.of(nodeId))).
            setClusterFeatureSupportDescriber(new ClusterFeatureSupportDescriber() {
                @Override public Iterator<Entry<Integer, Map<String, VersionRange>>> brokerSupported() {
                    return brokers.brokerSupportedFeatures();
                }

                @Override public Iterator<Entry<Integer, Map<String, VersionRange>>> controllerSupported() {
                    return brokers.controllerSupportedFeatures();
                }
            });
        Method setter = Releases.find(FeatureControlManager.Builder.class, "setKRaftVersionAccessor");
        if (setter != null) setter.invoke(builder, raft(setter.getParameterTypes()[0]));
        return builder.build();
    }

    /** The raft layer, whose kraft.version is 1. */
    private static Object raft(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
            method.getName().equals("kraftVersion") ? KRaftVersion.KRAFT_VERSION_1 : null);
    }

    private ClusterControlManager makeBrokers(LogContext log, SnapshotRegistry snapshots, long sessionTimeoutMs)
            throws Exception {
        ClusterControlManager.Builder builder = new ClusterControlManager.Builder().
            setLogContext(log).
            setClusterId(CLUSTER_ID).
            setTime(time).
            setSnapshotRegistry(snapshots).
            setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(sessionTimeoutMs)).
            setReplicaPlacer((spec, describer) -> {
                throw new UnsupportedOperationException("placement is random, and no event asks for it");
            }).
            setFeatureControlManager(features);
        for (String setter : List.of("setBrokerShutdownHandler", "setBrokerUncleanShutdownHandler")) {
            Method method = Releases.find(ClusterControlManager.Builder.class, setter);
            if (method != null) method.invoke(builder, shutdownHandler(method.getParameterTypes()[0]));
        }
        return builder.build();
    }

    /** From 4.0 of every shutdown, in 3.9 of unclean ones. */
    private Object shutdownHandler(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
            Releases.call(topics, arguments.length == 3 ? "handleBrokerShutdown" : "handleBrokerUncleanShutdown",
                arguments));
    }

    private ConfigurationControlManager makeConfigs(
            LogContext log, SnapshotRegistry snapshots, int nodeId, JsonNode staticConfig) throws Exception {
        Map<ConfigResource.Type, ConfigDef> definitions = Map.of(
            ConfigResource.Type.TOPIC, LogConfig.configDefCopy(),
            ConfigResource.Type.BROKER, AbstractKafkaConfig.CONFIG_DEF);
        Map<String, Object> values = new HashMap<>();
        staticConfig.fields().forEachRemaining(e -> values.put(e.getKey(), e.getValue().asText()));
        ConfigurationControlManager.Builder builder = new ConfigurationControlManager.Builder().
            setLogContext(log).
            setSnapshotRegistry(snapshots).
            setKafkaConfigSchema(
                new KafkaConfigSchema(definitions, ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS)).
            setExistenceChecker(this::checkExists).
            setStaticConfig(values).
            setNodeId(nodeId);
        Releases.set(builder, "setFeatureControl", features);
        return builder.build();
    }

    /** As QuorumController does, which is not here. */
    private void checkExists(ConfigResource resource) {
        if (resource.type() == ConfigResource.Type.TOPIC) {
            if (topics.getTopicId(resource.name()) == null) {
                throw new UnknownTopicOrPartitionException("no such topic");
            }
        } else if (resource.type() == ConfigResource.Type.BROKER && !resource.name().isEmpty()) {
            int id = Integer.parseInt(resource.name());
            if (!brokers.brokerRegistrations().containsKey(id) && !features.isControllerId(id)) {
                throw new BrokerIdNotRegisteredException("no such node");
            }
        }
    }

    @SuppressWarnings("unchecked")
    static Map<String, VersionRange> supportedFeatures() throws Exception {
        boolean older = Releases.find(QuorumFeatures.class, "defaultFeatureMap") != null;
        String name = older ? "defaultFeatureMap" : "defaultSupportedFeatureMap";
        return (Map<String, VersionRange>) Releases.call(QuorumFeatures.class, name, false);
    }

    // ------------------------------------------------------------------------------------------------- events

    /** What an event did. "fault" and "replay_fault" are where the real controller resigns: nothing may follow. */
    ObjectNode run(JsonNode event) {
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        shuttingDown = -1;
        ControllerResult<ObjectNode> result;
        try {
            result = requests.run(event);
        } catch (ApiException e) {
            out.put("error", Errors.forException(e).name()).putArray("records");
            state.addChanges(out);
            return out;
        } catch (Exception | AssertionError e) {
            out.put("fault", e.getClass().getSimpleName()).putArray("records");
            return out;
        }
        if (result.response() != null) out.set("response", result.response());
        ArrayNode described = out.putArray("records");
        List<ApiMessageAndVersion> written = new ArrayList<>();
        for (ApiMessageAndVersion r : result.records()) written.add(records.withRequestedId(r));
        for (ApiMessageAndVersion r : written) {
            described.add(records.describe(r));
            try {
                LockstepRecords.checkSerializable(r);
            } catch (RuntimeException e) {
                return out.put("replay_fault", e.getMessage());
            }
        }
        for (ApiMessageAndVersion r : written) {
            try {
                replay(r.message(), nextOffset);
            } catch (Exception | AssertionError e) {
                return out.put("replay_fault", e.getClass().getSimpleName());
            }
            nextOffset++;
        }
        if (shuttingDown >= 0) {
            brokers.heartbeatManager().maybeUpdateControlledShutdownOffset(shuttingDown, nextOffset - 1);
        }
        state.addChanges(out);
        return out;
    }

    ObjectNode describeAll() { return state.describeAll(); }

    private void replay(ApiMessage message, long offset) throws Exception {
        if (message instanceof NoOpRecord) return;
        for (Object manager : List.of(features, brokers, configs, topics)) {
            Method method = Releases.findReplay(manager.getClass(), message.getClass());
            if (method != null) {
                if (method.getParameterCount() == 2) method.invoke(manager, message, offset);
                else method.invoke(manager, message);
                return;
            }
        }
        throw new IllegalStateException("no manager replays " + message);
    }

    /** A heartbeat arrives that says nothing new: before 4.0 a contact is a touch of the heartbeat's state. */
    void contact(int broker) throws Exception {
        BrokerRegistration known = brokers.brokerRegistrations().get(broker);
        if (known == null) return;
        if (Releases.has(brokers, "trackBrokerHeartbeat")) {
            Releases.call(brokers, "trackBrokerHeartbeat", broker, known.epoch());
            return;
        }
        for (BrokerHeartbeatManager.BrokerHeartbeatState b : brokers.heartbeatManager().brokers()) {
            if (b.id() == broker) {
                brokers.heartbeatManager().touch(broker, b.fenced(), LockstepState.metadataOffset(b));
                return;
            }
        }
    }

    void failOver() {
        brokers.deactivate();
        brokers.activate();
    }
}
