package kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;
import kafka.zk.KafkaZkClient;

import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

import scala.Option;
import scala.runtime.BoxedUnit;
import scala.util.Try;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;

/**
 * One cluster: Kafka's KafkaController over nodes in memory. Its thread of events is not started: each event is handled
 * in this thread, after the nodes that brokers and tools would have written. What the controller puts into its queue
 * (the answers to watches) is dropped; the driver says what happens.
 */
final class ZkCluster {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TOPICS = "/brokers/topics/";
    private static final String CONFIGS = "/config/topics/";
    private static final String DELETIONS = "/admin/delete_topics/";
    private static final String ELECTION = "/admin/preferred_replica_election";
    private static final String REASSIGNMENT = "/admin/reassign_partitions";

    private final MemoryZooKeeper nodes = MemoryZooKeeper.create();
    private final KafkaZkClient client = Release.client(nodes);
    private final KafkaController controller;
    private int nextTopicId = 1;
    private final ArrayNode sends = JsonNodeFactory.instance.arrayNode();

    ZkCluster(JsonNode given) throws Exception {
        Properties properties = new Properties();
        properties.put("broker.id", given.get("controller_id").asText());
        properties.put("delete.topic.enable", given.get("delete_topic_enabled").asText());
        properties.put("unclean.leader.election.enable", given.get("default_unclean").asText());
        properties.put("leader.imbalance.per.broker.percentage", given.get("percentage").asText());
        MemoryZooKeeper.Node epoch = nodes.put("/controller_epoch", given.get("controller_epoch").asText().getBytes());
        epoch.version = given.get("epoch_store_version").asInt();
        given.get("brokers").fields().forEachRemaining(b -> register(nodes, b.getKey(), b.getValue().asLong()));
        given.get("topics").fields().forEachRemaining(topic -> start(topic.getKey(), topic.getValue()));
        given.get("queued").forEach(topic -> nodes.put(DELETIONS + topic.asText(), null));
        controller = controller(properties, client, nodes, (config, channels, events, context) ->
            new RecordedBatch(config, channels, events, context, sends));
    }

    /** Makes what collects the requests of a controller. */
    interface Batches {
        ControllerBrokerRequestBatch make(
            KafkaConfig config, ControllerChannelManager channels, ControllerEventManager events,
            ControllerContext context
        );
    }

    /** A controller that has not started, over nodes in memory; nothing but these batches gets its requests. */
    static KafkaController controller(
        Properties properties, KafkaZkClient client, MemoryZooKeeper nodes, Batches batches
    ) throws Exception {
        properties.put("zookeeper.connect", "in memory");
        properties.put("auto.leader.rebalance.enable", "false");
        KafkaConfig config = KafkaConfig.fromProps(properties);
        for (String path : List.of("/brokers/ids", "/brokers/topics", "/config/topics", "/config/changes",
            "/admin/delete_topics", "/isr_change_notification", "/log_dir_event_notification")) nodes.put(path, null);
        KafkaController controller = Release.controller(config, client, nodes);
        ControllerChannelManager channels = Release.channels(config, controller.controllerContext());
        ControllerContext context = controller.controllerContext();
        ControllerEventManager events = controller.eventManager();
        Fields.set(controller, "controllerChannelManager", channels);
        Fields.set(controller, "brokerRequestBatch", batches.make(config, channels, events, context));
        for (Object machine : List.of(controller.replicaStateMachine(), controller.partitionStateMachine()))
            Fields.set(machine, "controllerBrokerRequestBatch", batches.make(config, channels, events, context));
        return controller;
    }

    void close() throws Exception {
        controller.kafkaScheduler().shutdown();
    }

    private static byte[] bytes(JsonNode node) {
        return node.toString().getBytes();
    }

    static void register(MemoryZooKeeper nodes, String broker, long epoch) {
        ObjectNode info = JSON.createObjectNode().put("version", 4).put("host", "h").put("port", 9092)
            .put("jmx_port", -1).put("timestamp", "0");
        info.putArray("endpoints").add("PLAINTEXT://h" + broker + ":9092");
        info.putObject("listener_security_protocol_map").put("PLAINTEXT", "PLAINTEXT");
        nodes.put("/brokers/ids/" + broker, bytes(info)).created = epoch;
    }

    // --------------------------------------------------------------------------------------------------- topics

    private void start(String topic, JsonNode given) {
        ObjectNode node = topicNode(topic);
        given.get("partitions").fields().forEachRemaining(entry -> {
            for (String kind : List.of("replicas", "adding", "removing")) {
                JsonNode ids = entry.getValue().get(kind);
                String field = kind.equals("replicas") ? "partitions" : kind + "_replicas";
                if (!ids.isEmpty()) ((ObjectNode) node.get(field)).set(entry.getKey(), ids);
            }
            if (entry.getValue().hasNonNull("record"))
                putRecord(new TopicPartition(topic, Integer.parseInt(entry.getKey())), entry.getValue().get("record"));
        });
        nodes.put(TOPICS + topic, bytes(node));
        if (given.hasNonNull("unclean")) putUnclean(topic, given.get("unclean").asBoolean());
    }

    /** A new topic has its id already: brokers write it, so that the controller has no node to complete. */
    private ObjectNode topicNode(String topic) {
        try {
            MemoryZooKeeper.Node node = nodes.node(TOPICS + topic);
            if (node != null && node.data != null) return (ObjectNode) JSON.readTree(node.data);
        } catch (java.io.IOException e) {
            throw new IllegalStateException(e);
        }
        ObjectNode made = JSON.createObjectNode();
        Release.putTopicVersion(made, nextTopicId++);
        for (String field : List.of("partitions", "adding_replicas", "removing_replicas")) made.putObject(field);
        return made;
    }

    private void putUnclean(String topic, boolean allowed) {
        ObjectNode config = JSON.createObjectNode().put("version", 1);
        config.putObject("config").put("unclean.leader.election.enable", String.valueOf(allowed));
        nodes.put(CONFIGS + topic, bytes(config));
    }

    private void addPartitions(String topic, JsonNode assignments) {
        ObjectNode node = topicNode(topic);
        ObjectNode partitions = (ObjectNode) node.get("partitions");
        assignments.fields().forEachRemaining(entry -> {
            if (!partitions.has(entry.getKey())) partitions.set(entry.getKey(), entry.getValue());
        });
        nodes.put(TOPICS + topic, bytes(node));
    }

    private static String recordPath(TopicPartition partition) {
        return TOPICS + partition.topic() + "/partitions/" + partition.partition() + "/state";
    }

    private void putRecord(TopicPartition partition, JsonNode record) {
        if (record.isTextual()) {
            nodes.put(recordPath(partition), "undecodable".getBytes());
            return;
        }
        ObjectNode stored = JSON.createObjectNode().put("version", 1);
        for (String field : List.of("leader", "leader_epoch", "controller_epoch", "isr"))
            stored.set(field, record.get(field));
        if (record.get("recovery").asInt() != 0) stored.set("leader_recovery_state", record.get("recovery"));
        nodes.put(recordPath(partition), bytes(stored)).version = record.get("version").asInt();
    }

    // --------------------------------------------------------------------------------------------------- events

    /** Handles an event: what was sent, what was answered, and the state after it. */
    ObjectNode run(JsonNode event) throws Exception {
        sends.removeAll();
        ObjectNode out = JSON.createObjectNode();
        ObjectNode answer = JSON.createObjectNode();
        handle(event, answer);
        controller.eventManager().clearAndPut(UNHEEDED);
        nodes.remove(ELECTION);
        out.set("sends", sends.deepCopy());
        out.set("answer", answer);
        out.set("state", ZkState.describe(controller));
        out.set("records", records());
        if (nodes.takeMovedAtOther()) out.put("moved_at_other_node", true);
        MemoryZooKeeper.Node reassignment = nodes.node(REASSIGNMENT);
        if (reassignment != null) out.set("legacy_node", JSON.readTree(reassignment.data));
        return out;
    }

    /**
     * Handles an event as Kafka's thread of events does, which logs what process raises. Only updateMetrics raises,
     * after the handler: it reads the state of each replica of a queued topic, and a reassignment that failed half way
     * leaves replicas without one. The gauges keep their values then; nothing else is touched.
     */
    static void process(KafkaController controller, ControllerEvent event) {
        try {
            controller.process(event);
        } catch (NoSuchElementException e) {
            boolean isOfGauges = Arrays.stream(e.getStackTrace())
                .anyMatch(frame -> frame.getMethodName().equals("updateMetrics"));
            if (!isOfGauges) throw e;
        }
    }

    private static final ControllerEvent UNHEEDED = Startup$.MODULE$;

    private void handle(JsonNode event, ObjectNode answer) throws Exception {
        switch (event.get("op").asText()) {
            case "on_controller_failover":
                restoreBrokers(event.get("registered"));
                nodes.remove("/controller");
                process(controller, Reelect$.MODULE$);
                break;
            case "describe":
                break;
            case "other_controller":
                otherController();
                break;
            case "store_put":
                putRecord(ZkState.partition(event.get("partition").asText()), event.get("record"));
                break;
            case "store_delete":
                nodes.remove(recordPath(ZkState.partition(event.get("partition").asText())));
                break;
            case "on_broker_change":
                brokerChange(event);
                break;
            case "controlled_shutdown":
                controlledShutdown(event, answer);
                break;
            case "on_topic_change":
                topicChange(event);
                break;
            case "on_partition_modifications":
                partitionModifications(event.get("topic").asText(), event.get("assignments"));
                break;
            case "delete_topics":
                event.get("topics").forEach(topic -> nodes.put(DELETIONS + topic.asText(), null));
                process(controller, TopicDeletion$.MODULE$);
                break;
            case "enable_unclean_leader_election":
                event.get("topics").forEach(topic -> putUnclean(topic.asText(), true));
                event.get("topics").forEach(
                    topic -> process(controller, new TopicUncleanLeaderElectionEnable(topic.asText())));
                break;
            default:
                handleRequest(event, answer);
        }
    }

    private void handleRequest(JsonNode event, ObjectNode answer) throws Exception {
        switch (event.get("op").asText()) {
            case "elect_leaders":
                electLeaders(event, answer);
                break;
            case "rebalance_leaders":
                process(controller, AutoPreferredReplicaLeaderElection$.MODULE$);
                break;
            case "alter_partition_reassignments":
                alterReassignments(event, answer);
                break;
            case "reassign_partitions":
                reassign(event);
                break;
            case "alter_partition":
                Release.alterPartition(this, controller, event, answer);
                break;
            case "on_isr_change_notification":
                client.propagateIsrChanges(partitions(event.get("partitions")));
                process(controller, IsrChangeNotification$.MODULE$);
                break;
            case "on_broker_log_dir_failure":
                for (JsonNode broker : event.get("brokers")) client.propagateLogDirEvent(broker.asInt());
                process(controller, LogDirEventNotification$.MODULE$);
                break;
            case "on_log_dir_failure":
                client.propagateLogDirEvent(event.get("broker").asInt());
                process(controller, LogDirEventNotification$.MODULE$);
                leaderAndIsrResponse(event, hosted(event.get("broker").asInt()));
                break;
            case "on_leader_and_isr_response":
                leaderAndIsrResponse(event, names(event.get("online")));
                break;
            case "on_stop_replica_response":
                stopReplicaResponse(event);
                break;
            case "acknowledge_deletions":
                acknowledge(event.get("brokers"));
                break;
            default:
                throw new IllegalArgumentException("unknown event " + event);
        }
    }

    /** Another broker becomes controller: /controller is its own, and the epoch rises. */
    private void otherController() {
        MemoryZooKeeper.Node epoch = nodes.node("/controller_epoch");
        epoch.data = String.valueOf(Integer.parseInt(new String(epoch.data)) + 1).getBytes();
        epoch.version++;
        nodes.put("/controller", "{\"version\":1,\"brokerid\":1000,\"timestamp\":\"0\"}".getBytes());
    }

    private void brokerChange(JsonNode event) {
        restoreBrokers(event.get("registered"));
        event.get("started").fields().forEachRemaining(b -> register(nodes, b.getKey(), b.getValue().asLong()));
        event.get("bounced").fields().forEachRemaining(b -> register(nodes, b.getKey(), b.getValue().asLong()));
        event.get("failed").forEach(broker -> nodes.remove("/brokers/ids/" + broker.asInt()));
        process(controller, BrokerChange$.MODULE$);
    }

    /**
     * Registers the brokers that kfast knows: where a handler fails half way, kfast forgets what it had not come to,
     * while Kafka would see it in the nodes the next time.
     */
    private void restoreBrokers(JsonNode registered) {
        for (String broker : nodes.children("/brokers/ids"))
            if (!registered.has(broker)) nodes.remove("/brokers/ids/" + broker);
        registered.fields().forEachRemaining(b -> register(nodes, b.getKey(), b.getValue().asLong()));
    }

    private void controlledShutdown(JsonNode event, ObjectNode answer) {
        process(controller, new ControlledShutdown(event.get("broker").asInt(), event.get("epoch").asLong(),
            (Try<scala.collection.Set<TopicPartition>> result) -> {
                if (result.isFailure()) {
                    answer.put("error", result.failed().get().getClass().getSimpleName());
                } else {
                    ArrayNode remaining = answer.putArray("remaining");
                    for (TopicPartition partition : Scala.set(result.get())) remaining.add(partition.toString());
                }
                return BoxedUnit.UNIT;
            }));
    }

    /** Whoever removes the node of a topic removes its marker too, as kfast knows no marker of a topic that is gone. */
    private void topicChange(JsonNode event) {
        event.get("gone").forEach(topic -> nodes.remove(TOPICS + topic.asText()));
        event.get("gone").forEach(topic -> nodes.remove(DELETIONS + topic.asText()));
        event.get("configs").fields().forEachRemaining(entry -> putUnclean(entry.getKey(), entry.getValue().asBoolean()));
        event.get("created").fields().forEachRemaining(entry -> addPartitions(entry.getKey(), entry.getValue()));
        process(controller, TopicChange$.MODULE$);
    }

    /**
     * The node of a queued topic is put back as it was, and a controller that was replaced finds that out there, as it
     * writes the node: docs/deviations.md.
     */
    private void partitionModifications(String topic, JsonNode assignments) {
        byte[] before = nodes.node(TOPICS + topic).data;
        boolean isQueued = controller.controllerContext().isTopicQueuedUpForDeletion(topic);
        boolean wasActive = controller.isActive();
        addPartitions(topic, assignments);
        process(controller, new PartitionModifications(topic));
        if (!isQueued) return;
        nodes.put(TOPICS + topic, before);
        if (wasActive && !controller.isActive()) nodes.noteMovedAtOther();
    }

    private void electLeaders(JsonNode event, ObjectNode answer) {
        scala.collection.Set<TopicPartition> partitions = partitions(event.get("partitions"));
        boolean byAdmin = event.get("trigger").asText().equals("AdminClient");
        ElectionType type = event.get("kind").asText().equals("unclean")
            ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
        if (!byAdmin) client.createPreferredReplicaElection(partitions.toSet());
        ElectionTrigger trigger = byAdmin ? AdminClientTriggered$.MODULE$ : ZkTriggered$.MODULE$;
        Option<scala.collection.Set<TopicPartition>> asked = byAdmin ? Option.apply(partitions) : Option.empty();
        process(controller, new ReplicaLeaderElection(asked, type, trigger, results -> {
            ObjectNode replies = ZkState.child(answer, "replies");
            Scala.map(results).forEach((partition, reply) -> {
                if (reply.isLeft()) replies.put(partition.toString(), reply.left().get().error().name());
                else replies.put(partition.toString(), (Integer) reply.right().get());
            });
            return BoxedUnit.UNIT;
        }));
    }

    private void alterReassignments(JsonNode event, ObjectNode answer) {
        Map<TopicPartition, Option<scala.collection.Seq<Object>>> targets = new HashMap<>();
        event.get("reassignments").fields().forEachRemaining(entry -> {
            List<Object> ids = entry.getValue().isNull() ? null : new ArrayList<>(ZkState.integers(entry.getValue()));
            targets.put(ZkState.partition(entry.getKey()), Option.apply(ids == null ? null : Scala.seq(ids)));
        });
        process(controller, new ApiPartitionReassignment(Scala.scalaMap(targets), result -> {
            if (result.isRight()) {
                answer.put("error", result.right().get().error().name());
            } else {
                ObjectNode codes = answer.putObject("reassignment_codes");
                Scala.map(result.left().get()).forEach(
                    (partition, error) -> codes.put(partition.toString(), error.error().name()));
            }
            return BoxedUnit.UNIT;
        }));
    }

    private void reassign(JsonNode event) {
        Map<TopicPartition, scala.collection.Seq<Object>> targets = new HashMap<>();
        event.get("reassignments").fields().forEachRemaining(entry -> targets.put(ZkState.partition(entry.getKey()),
            Scala.seq(new ArrayList<>(ZkState.integers(entry.getValue())))));
        client.createPartitionReassignment(Scala.scalaMap(targets));
        process(controller, ZkPartitionReassignment$.MODULE$);
    }

    private static scala.collection.mutable.Set<TopicPartition> partitions(JsonNode names) {
        return Scala.scalaSet(new HashSet<>(names(names)));
    }

    private static List<TopicPartition> names(JsonNode names) {
        List<TopicPartition> out = new ArrayList<>();
        names.forEach(name -> out.add(ZkState.partition(name.asText())));
        return out;
    }

    private Set<TopicPartition> hosted(int broker) {
        return Scala.set(controller.controllerContext().partitionsOnBroker(broker));
    }

    /** Before 2.7 a leader writes the ISRs of partitions whose stored version it knows, and notifies the controller. */
    Set<TopicPartition> writeIsrs(JsonNode event) {
        Set<TopicPartition> written = new LinkedHashSet<>();
        event.get("records").fields().forEachRemaining(entry -> {
            TopicPartition partition = ZkState.partition(entry.getKey());
            MemoryZooKeeper.Node node = nodes.node(recordPath(partition));
            if (node == null || node.version != entry.getValue().get("version").asInt()) return;
            try {
                node.data = bytes(((ObjectNode) JSON.readTree(node.data)).set("isr", entry.getValue().get("isr")));
            } catch (java.io.IOException e) {
                return; // A record that does not decode has no leader that knows it.
            }
            node.version++;
            written.add(partition);
        });
        if (!written.isEmpty()) {
            client.propagateIsrChanges(Scala.scalaSet(written));
            process(controller, IsrChangeNotification$.MODULE$);
        }
        return written;
    }

    private void leaderAndIsrResponse(JsonNode event, Iterable<TopicPartition> online) {
        Map<TopicPartition, Errors> errors = new HashMap<>();
        online.forEach(partition -> errors.put(partition, Errors.NONE));
        names(event.get("offline")).forEach(partition -> errors.put(partition, Errors.KAFKA_STORAGE_ERROR));
        process(controller, Release.leaderAndIsrResponse(event.get("broker").asInt(), errors));
    }

    /** Only of topics whose deletion has started does Kafka's callback make an event. */
    private void stopReplicaResponse(JsonNode event) {
        boolean isError = event.get("error").asBoolean();
        Map<TopicPartition, Errors> errors = new HashMap<>();
        names(event.get("partitions")).forEach(partition -> errors.put(partition, Errors.NONE));
        names(event.get("failed")).forEach(partition -> errors.put(partition, Errors.KAFKA_STORAGE_ERROR));
        deleted(event.get("broker").asInt(), isError ? Errors.UNKNOWN_SERVER_ERROR : Errors.NONE, errors);
    }

    private void deleted(int broker, Errors error, Map<TopicPartition, Errors> errors) {
        errors.keySet().removeIf(partition ->
            !controller.controllerContext().topicsWithDeletionStarted().contains(partition.topic()));
        if (!errors.isEmpty())
            process(controller, new TopicDeletionStopReplicaResponseReceived(broker, error, Scala.scalaMap(errors)));
    }

    /** Registered brokers (or those of them that are named) answer for all that they were told to delete. */
    private void acknowledge(JsonNode named) {
        ControllerContext context = controller.controllerContext();
        Map<Integer, Map<TopicPartition, Errors>> answers = new TreeMap<>();
        Scala.map(context.replicaStates()).forEach((replica, state) -> {
            boolean isNamed = named.isNull() || ZkState.integers(named).contains(replica.replica());
            boolean isThere = context.liveOrShuttingDownBrokerIds().contains(replica.replica());
            if (state == ReplicaDeletionStarted$.MODULE$ && isNamed && isThere)
                answers.computeIfAbsent(replica.replica(), broker -> new HashMap<>())
                    .put(replica.topicPartition(), Errors.NONE);
        });
        answers.forEach((broker, errors) -> deleted(broker, Errors.NONE, errors));
    }

    // -------------------------------------------------------------------------------------------- what is stored

    /** Every stored record, with the version of its node; null where it does not decode. */
    private ObjectNode records() {
        ObjectNode out = JSON.createObjectNode();
        for (String topic : nodes.children("/brokers/topics"))
            for (String number : nodes.children(TOPICS + topic + "/partitions")) {
                MemoryZooKeeper.Node node = nodes.node(recordPath(new TopicPartition(topic, Integer.parseInt(number))));
                if (node == null) continue;
                try {
                    ObjectNode record = (ObjectNode) JSON.readTree(node.data);
                    out.set(topic + "-" + number, record.put("version", node.version));
                } catch (java.io.IOException e) {
                    out.putNull(topic + "-" + number);
                }
            }
        return out;
    }
}
