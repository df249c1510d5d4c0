package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.AppInfoParser;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Answers each line of the standard input with one line. {"op": "start", "given": ..} makes a cluster, {"op":
 * "describe_all"} tells its state, every other line is an event.
 */
public final class Lockstep {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Lockstep() { }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        LockstepCluster cluster = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode event = JSON.readTree(line);
            ObjectNode answer;
            switch (event.get("op").asText()) {
                case "start":
                    cluster = new LockstepCluster(event.get("given"));
                    answer = JsonNodeFactory.instance.objectNode().put("kafka", AppInfoParser.getVersion());
                    break;
                case "describe_all":
                    answer = cluster.describeAll();
                    break;
                default:
                    answer = cluster.run(event);
            }
            out.println(JSON.writeValueAsString(answer));
            if (!in.ready()) out.flush();
        }
    }
}
