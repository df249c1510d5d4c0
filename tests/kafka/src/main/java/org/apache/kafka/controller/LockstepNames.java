package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

import org.apache.kafka.common.Uuid;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Ids as events name them: directories "3/0" and LOST, incarnations "i7", topics by name. */
final class LockstepNames {
    private static final Map<String, Uuid> RESERVED =
        Map.of("MIGRATING", new Uuid(0, 0), "UNASSIGNED", new Uuid(0, 1), "LOST", new Uuid(0, 2));

    final Map<Uuid, String> topics = new HashMap<>();
    /** Ids that the topics of a request are to have. */
    Map<String, Uuid> requested = new HashMap<>();
    private final Map<Uuid, String> directories = new HashMap<>();
    private final Map<Uuid, String> incarnations = new HashMap<>();

    LockstepNames() {
        RESERVED.forEach((label, id) -> directories.put(id, label));
    }

    /** Those of a broker sort by number, and brokers' by id. */
    Uuid directory(JsonNode label) {
        String text = label.asText();
        if (RESERVED.containsKey(text)) return RESERVED.get(text);
        String[] parts = text.split("/");
        Uuid id = new Uuid((Long.parseLong(parts[0]) + 1) * 1000 + Long.parseLong(parts[1]), 77);
        directories.put(id, text);
        return id;
    }

    List<Uuid> directories(JsonNode labels) {
        List<Uuid> out = new ArrayList<>();
        for (JsonNode label : labels) out.add(directory(label));
        return out;
    }

    String directoryLabel(Uuid id) { return directories.get(id); }

    ArrayNode directoryLabels(Collection<Uuid> ids) {
        ArrayNode out = JsonNodeFactory.instance.arrayNode();
        for (Uuid id : ids) out.add(directoryLabel(id));
        return out;
    }

    Uuid incarnation(String label) {
        Uuid id = new Uuid(4242, Long.parseLong(label.substring(1)));
        incarnations.put(id, label);
        return id;
    }

    String incarnationLabel(Uuid id) { return incarnations.get(id); }

    String topic(Uuid id) { return topics.getOrDefault(id, "?"); }

    static List<Integer> ints(JsonNode node) {
        List<Integer> out = new ArrayList<>();
        for (JsonNode item : node) out.add(item.asInt());
        return out;
    }

    static ArrayNode list(int[] values) {
        ArrayNode out = JsonNodeFactory.instance.arrayNode();
        for (int value : values) out.add(value);
        return out;
    }

    static ArrayNode list(Collection<Integer> values) {
        ArrayNode out = JsonNodeFactory.instance.arrayNode();
        for (int value : values) out.add(value);
        return out;
    }
}
