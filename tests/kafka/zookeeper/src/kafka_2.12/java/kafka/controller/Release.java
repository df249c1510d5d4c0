package kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.api.LeaderAndIsr;
import kafka.server.KafkaConfig;
import kafka.zk.KafkaZkClient;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.LeaderAndIsrResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.LeaderAndIsrResponse;
import org.apache.kafka.common.requests.StopReplicaRequest;
import org.apache.kafka.common.utils.Time;

import scala.Option;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What Kafka 2.4 names or builds in another way than 3.9. */
final class Release {
    private static final Metrics METRICS = new Metrics();

    private Release() { }

    static KafkaZkClient client(MemoryZooKeeper nodes) {
        return new KafkaZkClient(nodes, false, Time.SYSTEM);
    }

    static KafkaController controller(KafkaConfig config, KafkaZkClient client, MemoryZooKeeper nodes) {
        return new KafkaController(config, client, Time.SYSTEM, METRICS, null, 0, null, Option.empty());
    }

    static ControllerChannelManager channels(KafkaConfig config, ControllerContext context) {
        return new ControllerChannelManager(
            context, config, Time.SYSTEM, METRICS, new StateChangeLogger(config.brokerId(), true, Option.empty()),
            Option.empty()
        ) {
            @Override public void startup() { }

            @Override public void shutdown() { }

            @Override public void addBroker(kafka.cluster.Broker broker) { }

            @Override public void removeBroker(int broker) { }
        };
    }

    static void noteStop(ObjectNode send, int broker, StopReplicaRequest request) {
        ObjectNode one = ZkState.child(ZkState.child(send, "stop_replica"), String.valueOf(broker));
        ArrayNode partitions = one.put("broker_epoch", request.brokerEpoch()).withArray("partitions");
        for (TopicPartition partition : request.partitions())
            partitions.addObject().put("partition", partition.toString()).put("delete", request.deletePartitions());
    }

    static void putVersion(ObjectNode row, LeaderAndIsrPartitionState state) {
        row.put("version", state.zkVersion()).put("recovery", 0);
    }

    static void putVersion(ObjectNode row, LeaderAndIsr record) {
        row.put("version", record.zkVersion()).put("recovery", 0);
    }

    static void putImbalance(ObjectNode out, KafkaController controller) throws ReflectiveOperationException {
        out.put("preferred_imbalance_count",
            (int) Fields.get(controller, "kafka$controller$KafkaController$$preferredReplicaImbalanceCount"));
    }

    static void putTopicVersion(ObjectNode topic, int number) {
        topic.put("version", 2);
    }

    static ControllerEvent leaderAndIsrResponse(int broker, Map<TopicPartition, Errors> errors) {
        List<LeaderAndIsrResponseData.LeaderAndIsrPartitionError> rows = new ArrayList<>();
        errors.forEach((partition, error) -> rows.add(new LeaderAndIsrResponseData.LeaderAndIsrPartitionError()
            .setTopicName(partition.topic()).setPartitionIndex(partition.partition()).setErrorCode(error.code())));
        return new LeaderAndIsrResponseReceived(
            new LeaderAndIsrResponse(new LeaderAndIsrResponseData().setPartitionErrors(rows)), broker);
    }

    static void alterPartition(ZkCluster cluster, KafkaController controller, JsonNode event, ObjectNode answer) {
        for (TopicPartition partition : cluster.writeIsrs(event)) // what the watch of a reassignment tells
            ZkCluster.process(controller, new PartitionReassignmentIsrChange(partition));
    }
}
