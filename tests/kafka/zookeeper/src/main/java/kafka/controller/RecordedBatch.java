package kafka.controller;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.requests.AbstractControlRequest;
import org.apache.kafka.common.requests.AbstractResponse;

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
        Release.note(send, broker, (AbstractControlRequest) builder.build());
    }
}
