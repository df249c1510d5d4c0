package kafka.controller;

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
 * Answers each line of the standard input with one line. {"op": "start", "given": ..} makes a cluster, every other
 * line is an event of it.
 */
public final class ZkLockstep {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ZkLockstep() { }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ZkCluster cluster = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode event = JSON.readTree(line);
            ObjectNode answer;
            if (event.get("op").asText().equals("start")) {
                if (cluster != null) cluster.close();
                cluster = new ZkCluster(event.get("given"));
                answer = JsonNodeFactory.instance.objectNode().put("kafka", AppInfoParser.getVersion());
            } else {
                answer = run(cluster, event);
            }
            out.println(JSON.writeValueAsString(answer));
            if (!in.ready()) out.flush();
        }
        System.exit(0);
    }

    private static ObjectNode run(ZkCluster cluster, JsonNode event) {
        try {
            return cluster.run(event);
        } catch (Exception e) {
            e.printStackTrace();
            return JsonNodeFactory.instance.objectNode().put("failed", e.toString());
        }
    }
}
