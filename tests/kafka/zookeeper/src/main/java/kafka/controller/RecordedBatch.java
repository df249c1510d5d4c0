package kafka.controller;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataPartitionState;
import org.apache.kafka.common.requests.AbstractControlRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.LeaderAndIsrRequest;
import org.apache.kafka.common.requests.StopReplicaRequest;
import org.apache.kafka.common.requests.UpdateMetadataRequest;

import scala.Function1;
import scala.runtime.BoxedUnit;

/** Kafka's batch of requests; what it sends is noted, one object for each send that says something. */
class RecordedBatch extends ControllerBrokerRequestBatch {
    private final ArrayNode sends;
    private ObjectNode send;

    RecordedBatch(
        KafkaConfig config, ControllerChannelManager channels, ControllerEventManager events, ControllerContext context,
        ArrayNode sends
    ) {
        super(config, channels, events, context, new StateChangeLogger(config.brokerId(), true, scala.Option.empty()));
        this.sends = sends;
    }

    /** What a call that failed had added is cleared here: docs/deviations.md. */
    @Override
    public void newBatch() {
        clear();
        super.newBatch();
    }

    @Override
    public void sendRequestsToBrokers(int controllerEpoch) {
        send = JsonNodeFactory.instance.objectNode();
        super.sendRequestsToBrokers(controllerEpoch);
        if (!send.isEmpty()) sends.add(send.put("controller_epoch", controllerEpoch));
    }

    @Override
    public void sendRequest(
        int broker, AbstractControlRequest.Builder<? extends AbstractControlRequest> builder,
        Function1<AbstractResponse, BoxedUnit> callback
    ) {
        note(broker, (AbstractControlRequest) builder.build());
    }

    private void note(int broker, AbstractControlRequest request) {
        if (request instanceof LeaderAndIsrRequest) {
            ObjectNode one = ZkState.child(send, "leader_and_isr").putObject(String.valueOf(broker));
            ArrayNode partitions = one.put("broker_epoch", request.brokerEpoch()).putArray("partitions");
            for (LeaderAndIsrPartitionState state : ((LeaderAndIsrRequest) request).partitionStates()) {
                ObjectNode row = partitions.addObject();
                row.put("partition", state.topicName() + "-" + state.partitionIndex());
                row.put("leader", state.leader()).put("leader_epoch", state.leaderEpoch());
                Release.putVersion(row, state);
                row.put("controller_epoch", state.controllerEpoch()).put("is_new", state.isNew());
                ZkState.putAll(row.putArray("isr"), state.isr());
                ZkState.putAll(row.putArray("replicas"), state.replicas());
                ZkState.putAll(row.putArray("adding"), state.addingReplicas());
                ZkState.putAll(row.putArray("removing"), state.removingReplicas());
            }
        } else if (request instanceof StopReplicaRequest) {
            Release.noteStop(send, broker, (StopReplicaRequest) request);
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
}
