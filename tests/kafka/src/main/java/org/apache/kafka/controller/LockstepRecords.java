package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.Map;
import java.util.Map.Entry;

/** Metadata records as JSON, and the few kinds that a cluster may start from. */
final class LockstepRecords {
    private final LockstepNames names;

    LockstepRecords(LockstepNames names) { this.names = names; }

    /** A record that is applied before the first event. */
    ApiMessage parse(JsonNode r, Map<String, VersionRange> supported) {
        switch (r.get("type").asText()) {
            case "FEATURE_LEVEL_RECORD":
                return new FeatureLevelRecord().setName(r.get("name").asText())
                    .setFeatureLevel((short) r.get("featureLevel").asInt());
            case "CONFIG_RECORD":
                return new ConfigRecord().setResourceType((byte) r.get("resourceType").asInt())
                    .setResourceName(r.get("resourceName").asText()).setName(r.get("name").asText())
                    .setValue(r.get("value").isNull() ? null : r.get("value").asText());
            case "REGISTER_BROKER_RECORD":
                return broker(r, supported);
            default:
                throw new IllegalArgumentException("a cluster cannot start from " + r);
        }
    }

    private ApiMessage broker(JsonNode r, Map<String, VersionRange> supported) {
        RegisterBrokerRecord out = new RegisterBrokerRecord().setBrokerId(r.get("brokerId").asInt())
            .setIncarnationId(names.incarnation(r.get("incarnation").asText()))
            .setBrokerEpoch(r.get("brokerEpoch").asLong())
            .setRack(r.get("rack").isNull() ? null : r.get("rack").asText())
            .setFenced(r.get("fenced").asBoolean())
            .setInControlledShutdown(r.get("inControlledShutdown").asBoolean())
            .setLogDirs(names.directories(r.path("logDirs")));
        out.endPoints().add(new RegisterBrokerRecord.BrokerEndpoint().setName("PLAINTEXT")
            .setHost("b" + out.brokerId()).setPort(9092).setSecurityProtocol((short) 0));
        supported.forEach((name, range) -> out.features().add(new RegisterBrokerRecord.BrokerFeature()
            .setName(name).setMinSupportedVersion(range.min()).setMaxSupportedVersion(range.max())));
        return out;
    }

    /** Gives a new topic the id that the event asks for, where Kafka drew one. */
    ApiMessageAndVersion withRequestedId(ApiMessageAndVersion r) {
        ApiMessage message = r.message();
        if (message instanceof TopicRecord) {
            TopicRecord topic = (TopicRecord) message;
            Uuid id = names.requested.get(topic.name());
            names.topics.put(topic.topicId(), topic.name());
            names.topics.put(id, topic.name());
            return new ApiMessageAndVersion(topic.duplicate().setTopicId(id), r.version());
        }
        if (message instanceof PartitionRecord) {
            PartitionRecord partition = (PartitionRecord) message;
            Uuid id = names.requested.get(names.topic(partition.topicId()));
            return id == null ? r : new ApiMessageAndVersion(partition.duplicate().setTopicId(id), r.version());
        }
        return r;
    }

    /** The fields that kafka-dump-log shows, without endpoints and features. */
    ObjectNode describe(ApiMessageAndVersion r) {
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        MetadataRecordType type = MetadataRecordType.fromId(r.message().apiKey());
        out.put("type", type.name()).put("version", r.version());
        Iterator<Entry<String, JsonNode>> fields = MetadataJsonConverters.writeJson(r.message(), r.version()).fields();
        while (fields.hasNext()) {
            Entry<String, JsonNode> field = fields.next();
            JsonNode value = field.getValue();
            switch (field.getKey()) {
                case "endPoints": case "features": case "isMigratingZkBroker": break;
                case "topicId":
                    if (type == MetadataRecordType.TOPIC_RECORD) out.set("topicId", value);
                    else out.put("topic", names.topic(Uuid.fromString(value.asText())));
                    break;
                case "incarnationId":
                    out.put("incarnation", names.incarnationLabel(Uuid.fromString(value.asText())));
                    break;
                case "directories": case "logDirs": case "cordonedLogDirs":
                    ArrayNode labels = out.putArray(field.getKey());
                    for (JsonNode id : value) labels.add(names.directoryLabel(Uuid.fromString(id.asText())));
                    break;
                default: out.set(field.getKey(), value);
            }
        }
        return out;
    }

    /** Fails where a record has a field that its version cannot hold. */
    static void checkSerializable(ApiMessageAndVersion r) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(r, cache);
        MetadataRecordSerde.INSTANCE.write(r, cache, new ByteBufferAccessor(ByteBuffer.allocate(size)));
    }
}
