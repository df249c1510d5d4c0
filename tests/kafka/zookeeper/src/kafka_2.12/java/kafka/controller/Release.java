package kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.api.LeaderAndIsr;
import kafka.server.KafkaConfig;
import kafka.zk.KafkaZkClient;

import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.LeaderAndIsrResponseData;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataPartitionState;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractControlRequest;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.LeaderAndIsrRequest;
import org.apache.kafka.common.requests.LeaderAndIsrResponse;
import org.apache.kafka.common.requests.StopReplicaRequest;
import org.apache.kafka.common.requests.UpdateMetadataRequest;
import org.apache.kafka.common.utils.Time;

import scala.Option;
import scala.runtime.BoxedUnit;
import scala.util.Either;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;

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

    static void note(ObjectNode send, int broker, AbstractControlRequest request) {
        if (request instanceof LeaderAndIsrRequest) {
            ObjectNode one = ZkState.child(send, "leader_and_isr").putObject(String.valueOf(broker));
            ArrayNode partitions = one.put("broker_epoch", request.brokerEpoch()).putArray("partitions");
            for (LeaderAndIsrPartitionState state : ((LeaderAndIsrRequest) request).partitionStates()) {
                ObjectNode row = partitions.addObject();
                row.put("partition", state.topicName() + "-" + state.partitionIndex());
                row.put("leader", state.leader()).put("leader_epoch", state.leaderEpoch());
                row.put("recovery", 0).put("version", state.zkVersion());
                row.put("controller_epoch", state.controllerEpoch()).put("is_new", state.isNew());
                ZkState.putAll(row.putArray("isr"), state.isr());
                ZkState.putAll(row.putArray("replicas"), state.replicas());
                ZkState.putAll(row.putArray("adding"), state.addingReplicas());
                ZkState.putAll(row.putArray("removing"), state.removingReplicas());
            }
        } else if (request instanceof StopReplicaRequest) {
            StopReplicaRequest stop = (StopReplicaRequest) request;
            ObjectNode one = ZkState.child(ZkState.child(send, "stop_replica"), String.valueOf(broker));
            ArrayNode partitions = one.put("broker_epoch", request.brokerEpoch()).withArray("partitions");
            for (TopicPartition partition : stop.partitions())
                partitions.addObject().put("partition", partition.toString()).put("delete", stop.deletePartitions());
        } else {
            UpdateMetadataRequest metadata = (UpdateMetadataRequest) request;
            boolean isFirst = !send.has("update_metadata_brokers");
            ZkState.child(send, "update_metadata_brokers").put(String.valueOf(broker), request.brokerEpoch());
            if (!isFirst) return;
            ArrayNode partitions = send.putArray("update_metadata");
            for (UpdateMetadataPartitionState state : metadata.partitionStates()) {
                ObjectNode row = partitions.addObject();
                row.put("partition", state.topicName() + "-" + state.partitionIndex());
                row.put("leader", state.leader()).put("leader_epoch", state.leaderEpoch());
                row.put("version", state.zkVersion()).put("controller_epoch", state.controllerEpoch());
                ZkState.putAll(row.putArray("isr"), state.isr());
                ZkState.putAll(row.putArray("replicas"), state.replicas());
                ZkState.putAll(row.putArray("offline_replicas"), state.offlineReplicas());
            }
        }
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

    static <T> scala.collection.immutable.Set<T> immutable(scala.collection.Set<T> values) {
        return values.toSet();
    }

    static void elect(
        KafkaController controller, Option<scala.collection.mutable.Set<TopicPartition>> partitions, ElectionType type,
        ElectionTrigger trigger, BiConsumer<TopicPartition, Either<ApiError, Object>> reply
    ) {
        ZkCluster.process(controller, new ReplicaLeaderElection(widen(partitions), type, trigger, results -> {
            Scala.map(results).forEach(reply);
            return BoxedUnit.UNIT;
        }));
    }

    @SuppressWarnings("unchecked")
    private static Option<scala.collection.Set<TopicPartition>> widen(Option<?> partitions) {
        return (Option<scala.collection.Set<TopicPartition>>) partitions;
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
