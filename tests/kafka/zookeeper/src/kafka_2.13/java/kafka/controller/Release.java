package kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.api.LeaderAndIsr;
import kafka.server.BrokerFeatures;
import kafka.server.KafkaConfig;
import kafka.server.metadata.ZkFinalizedFeatureCache;
import kafka.zk.FeatureZNode;
import kafka.zk.FeatureZNodeStatus;
import kafka.zk.KafkaZkClient;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.LeaderAndIsrResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.LeaderAndIsrResponse;
import org.apache.kafka.common.requests.StopReplicaRequest;
import org.apache.kafka.common.utils.Time;

import scala.Option;
import scala.runtime.BoxedUnit;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What Kafka 3.9 names or builds in another way than 2.4. */
final class Release {
    private static final Metrics METRICS = new Metrics();
    private static final short BY_TOPIC_ID = 2;

    private Release() { }

    static KafkaZkClient client(MemoryZooKeeper nodes) {
        return new KafkaZkClient(nodes, false, Time.SYSTEM, false);
    }

    static KafkaController controller(KafkaConfig config, KafkaZkClient client, MemoryZooKeeper nodes) {
        BrokerFeatures features = BrokerFeatures.createEmpty();
        FeatureZNode feature = FeatureZNode.apply(config.interBrokerProtocolVersion(),
            FeatureZNodeStatus.Enabled$.MODULE$, scala.collection.immutable.Map$.MODULE$.empty());
        nodes.put(FeatureZNode.path(), FeatureZNode.encode(feature));
        ZkFinalizedFeatureCache none = (ZkFinalizedFeatureCache) Proxy.newProxyInstance(
            Release.class.getClassLoader(), new Class<?>[] {ZkFinalizedFeatureCache.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("getFeatureOption")) return Option.empty();
                throw new UnsupportedOperationException(method.getName());
            });
        return new KafkaController(config, client, Time.SYSTEM, METRICS, null, 0, null, features, none, Option.empty());
    }

    static ControllerChannelManager channels(KafkaConfig config, ControllerContext context) {
        return new ControllerChannelManager(
            () -> 0, config, Time.SYSTEM, METRICS, new StateChangeLogger(config.brokerId(), true, Option.empty()),
            Option.empty()
        ) {
            @Override public void startup(scala.collection.Set<kafka.cluster.Broker> brokers) { }

            @Override public void shutdown() { }

            @Override public void addBroker(kafka.cluster.Broker broker) { }

            @Override public void removeBroker(int broker) { }
        };
    }

    static void noteStop(ObjectNode send, int broker, StopReplicaRequest request) {
        ObjectNode one = ZkState.child(send, "stop_replica").putObject(String.valueOf(broker));
        ArrayNode partitions = one.put("broker_epoch", request.brokerEpoch()).putArray("partitions");
        request.partitionStates().forEach((partition, state) -> partitions.addObject()
            .put("partition", partition.toString()).put("leader_epoch", state.leaderEpoch())
            .put("delete", state.deletePartition()));
    }

    static void putVersion(ObjectNode row, LeaderAndIsrPartitionState state) {
        row.put("version", state.partitionEpoch()).put("recovery", state.leaderRecoveryState());
    }

    static void putVersion(ObjectNode row, LeaderAndIsr record) {
        row.put("version", record.partitionEpoch()).put("recovery", record.leaderRecoveryState().value());
    }

    static void putImbalance(ObjectNode out, KafkaController controller) {
        out.put("preferred_imbalance_count", controller.controllerContext().preferredReplicaImbalanceCount());
    }

    static void putTopicVersion(ObjectNode topic, int number) {
        topic.put("version", 3).put("topic_id", new Uuid(1, number).toString());
    }

    static ControllerEvent leaderAndIsrResponse(int broker, Map<TopicPartition, Errors> errors) {
        List<LeaderAndIsrResponseData.LeaderAndIsrPartitionError> rows = new ArrayList<>();
        errors.forEach((partition, error) -> rows.add(new LeaderAndIsrResponseData.LeaderAndIsrPartitionError()
            .setTopicName(partition.topic()).setPartitionIndex(partition.partition()).setErrorCode(error.code())));
        return new LeaderAndIsrResponseReceived(
            new LeaderAndIsrResponse(new LeaderAndIsrResponseData().setPartitionErrors(rows), (short) 4), broker);
    }

    /** A request of one leader; an ISR that has the cached members is written in the order of the cached one. */
    static void alterPartition(ZkCluster cluster, KafkaController controller, JsonNode event, ObjectNode answer) {
        ControllerContext context = controller.controllerContext();
        Map<String, AlterPartitionRequestData.TopicData> topics = new HashMap<>();
        event.get("records").fields().forEachRemaining(entry -> {
            TopicPartition partition = ZkState.partition(entry.getKey());
            JsonNode record = entry.getValue();
            List<Integer> isr = ZkState.integers(record.get("isr"));
            Option<LeaderIsrAndControllerEpoch> cached = context.partitionLeadershipInfo(partition);
            if (cached.isDefined()) {
                List<Object> known = Scala.list(cached.get().leaderAndIsr().isr());
                if (known.size() == isr.size() && known.containsAll(isr)) {
                    isr = new ArrayList<>();
                    for (Object member : known) isr.add((Integer) member);
                }
            }
            Uuid id = (Uuid) context.topicIds().apply(partition.topic());
            topics.computeIfAbsent(partition.topic(), name -> new AlterPartitionRequestData.TopicData().setTopicId(id))
                .partitions().add(new AlterPartitionRequestData.PartitionData()
                    .setPartitionIndex(partition.partition()).setLeaderEpoch(record.get("leader_epoch").asInt())
                    .setNewIsr(isr).setLeaderRecoveryState((byte) record.get("recovery").asInt())
                    .setPartitionEpoch(record.get("version").asInt()));
        });
        AlterPartitionRequestData request = new AlterPartitionRequestData().setBrokerId(event.get("broker").asInt())
            .setBrokerEpoch(event.get("epoch").asLong()).setTopics(new ArrayList<>(topics.values()));
        ZkCluster.process(controller, new AlterPartitionReceived(request, BY_TOPIC_ID, response -> {
            answer(context, response, answer);
            return BoxedUnit.UNIT;
        }));
    }

    private static void answer(ControllerContext context, AlterPartitionResponseData response, ObjectNode answer) {
        if (response.errorCode() != 0) answer.put("error", Errors.forCode(response.errorCode()).name());
        ObjectNode codes = ZkState.child(answer, "alter_codes");
        for (AlterPartitionResponseData.TopicData topic : response.topics()) {
            String name = context.topicNames().apply(topic.topicId());
            for (AlterPartitionResponseData.PartitionData row : topic.partitions())
                codes.put(name + "-" + row.partitionIndex(), Errors.forCode(row.errorCode()).name());
        }
    }
}
