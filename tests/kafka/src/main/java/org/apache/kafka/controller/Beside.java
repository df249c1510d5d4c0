package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData.BrokerState;
import org.apache.kafka.common.message.AlterPartitionRequestData.TopicData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Times one large cluster in Kafka's managers: `make beside`. Arguments: the file of the cluster (see
 * benchmarks/beside.py), what it starts from, and how many events of a small cluster come before, which let the JVM
 * compile. Each line of the output is what one event took and the state after it.
 */
public final class Beside {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final int ALTER_PARTITION = 3;

    private final int[] sizes;
    private final int[] replicas;
    private final int factor;
    private final LockstepCluster cluster;
    private final List<Uuid> ids = new ArrayList<>();
    private final boolean shows;

    private Beside(IntBuffer file, File given, boolean shows) throws Exception {
        factor = file.get();
        sizes = new int[file.get()];
        file.get(sizes);
        replicas = new int[file.remaining()];
        file.get(replicas);
        this.shows = shows;
        cluster = new LockstepCluster(JSON.readTree(given));
    }

    public static void main(String[] args) throws Exception {
        for (int i = Integer.parseInt(args[3]); i > 0; i--) run(args[2], args[1], false);
        run(args[0], args[1], true);
    }

    private static void run(String path, String given, boolean shows) throws Exception {
        IntBuffer file = java.nio.ByteBuffer.wrap(Files.readAllBytes(Path.of(path))).asIntBuffer();
        int[] one = new int[file.get()];
        file.get(one);
        int[] rack = new int[file.get()];
        file.get(rack);
        Beside beside = new Beside(file, new File(given), shows);
        beside.load();
        for (int broker : one) beside.fence("fail one", broker);
        beside.fence("fail a third", rack);
        beside.unfence("return of a third", rack);
        beside.catchUp("catch up of a third", rack);
        beside.balance("rebalance leaders");
    }

    // ---------------------------------------------------------------------------------------------------- events

    /** Replays the records of all topics and partitions; only the replay is timed. */
    private void load() throws Exception {
        long nanos = 0;
        long cpu = 0;
        int at = 0;
        for (int topic = 0; topic < sizes.length; topic++) {
            Uuid id = new Uuid(1, topic + 1000);
            ids.add(id);
            List<ApiMessage> records = new ArrayList<>();
            records.add(new TopicRecord().setName("topic-" + topic).setTopicId(id));
            for (int number = 0; number < sizes[topic]; number++, at += factor) records.add(partition(id, number, at));
            long cpuBefore = cpuNanos();
            long before = System.nanoTime();
            for (ApiMessage record : records) replay(record);
            nanos += System.nanoTime() - before;
            cpu += cpuNanos() - cpuBefore;
        }
        show("load", nanos, cpu, ids.size() + at / factor);
    }

    private PartitionRecord partition(Uuid id, int number, int at) {
        List<Integer> brokers = new ArrayList<>();
        for (int i = 0; i < factor; i++) brokers.add(replicas[at + i]);
        return new PartitionRecord().setTopicId(id).setPartitionId(number).setReplicas(brokers).setIsr(brokers)
            .setLeader(brokers.get(0)).setLeaderEpoch(0).setPartitionEpoch(0);
    }

    private interface Event { void decide(int broker, List<ApiMessageAndVersion> records) throws Exception; }

    private void fence(String name, int... brokers) throws Exception {
        run(name, brokers, (broker, records) -> Releases.call(cluster.topics, "handleBrokerFenced", broker, records));
    }

    private void unfence(String name, int... brokers) throws Exception {
        run(name, brokers, (broker, records) -> Releases.call(cluster.topics, "handleBrokerUnfenced", broker,
            cluster.brokers.brokerRegistrations().get(broker).epoch(), records));
    }

    /** Each leader reports that the replicas on these brokers are in sync; its request exists before. */
    private void catchUp(String name, int... brokers) throws Exception {
        Set<Integer> returned = new HashSet<>();
        for (int broker : brokers) returned.add(broker);
        Map<Integer, AlterPartitionRequestData> requests = new TreeMap<>();
        for (int topic = 0; topic < sizes.length; topic++)
            for (int number = 0; number < sizes[topic]; number++) report(requests, ids.get(topic), number, returned);
        int[] leaders = requests.keySet().stream().mapToInt(leader -> leader).toArray();
        ControllerRequestContext context = LockstepRequests.context(ALTER_PARTITION);
        run(name, leaders, (leader, records) ->
            records.addAll(cluster.topics.alterPartition(context, requests.get(leader)).records()));
    }

    private void report(Map<Integer, AlterPartitionRequestData> requests, Uuid id, int number, Set<Integer> returned) {
        PartitionRegistration p = cluster.topics.getPartition(id, number);
        List<BrokerState> isr = new ArrayList<>();
        for (int member : p.isr) isr.add(member(member));
        for (int replica : p.replicas)
            if (returned.contains(replica) && Arrays.stream(p.isr).noneMatch(member -> member == replica))
                isr.add(member(replica));
        if (isr.size() == p.isr.length) return;
        AlterPartitionRequestData request = requests.computeIfAbsent(p.leader, leader -> new AlterPartitionRequestData()
            .setBrokerId(leader).setBrokerEpoch(member(leader).brokerEpoch()));
        List<TopicData> topics = request.topics();
        if (topics.isEmpty() || !topics.get(topics.size() - 1).topicId().equals(id))
            topics.add(new TopicData().setTopicId(id));
        topics.get(topics.size() - 1).partitions().add(new AlterPartitionRequestData.PartitionData()
            .setPartitionIndex(number).setLeaderEpoch(p.leaderEpoch).setPartitionEpoch(p.partitionEpoch)
            .setNewIsrWithEpochs(isr));
    }

    private BrokerState member(int broker) {
        return new BrokerState().setBrokerId(broker)
            .setBrokerEpoch(cluster.brokers.brokerRegistrations().get(broker).epoch());
    }

    /** The periodic task, which elects at most 1000 leaders at a time and says whether to come again at once. */
    private void balance(String name) throws Exception {
        int n = 0;
        long cpuBefore = cpuNanos();
        long before = System.nanoTime();
        ControllerResult<?> result;
        do {
            result = (ControllerResult<?>) Releases.call(cluster.topics, "maybeBalancePartitionLeaders");
            for (ApiMessageAndVersion record : result.records()) replay(record.message());
            n += result.records().size();
        } while ((Boolean) result.response());
        long nanos = System.nanoTime() - before;
        show(name, nanos, cpuNanos() - cpuBefore, n);
    }

    /** One broker after another: decide, then replay what was decided. */
    private void run(String name, int[] brokers, Event event) throws Exception {
        int n = 0;
        long cpuBefore = cpuNanos();
        long before = System.nanoTime();
        for (int broker : brokers) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            event.decide(broker, records);
            for (ApiMessageAndVersion record : records) replay(record.message());
            n += records.size();
        }
        long nanos = System.nanoTime() - before;
        show(name, nanos, cpuNanos() - cpuBefore, n);
    }

    private void replay(ApiMessage record) {
        cluster.nextOffset++;
        if (record instanceof PartitionChangeRecord) cluster.topics.replay((PartitionChangeRecord) record);
        else if (record instanceof PartitionRecord) cluster.topics.replay((PartitionRecord) record);
        else if (record instanceof TopicRecord) cluster.topics.replay((TopicRecord) record);
        else cluster.brokers.replay((BrokerRegistrationChangeRecord) record);
    }

    // ----------------------------------------------------------------------------------------------------- output

    private static long cpuNanos() { return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(); }

    private void show(String name, long nanos, long cpu, int records) throws Exception {
        if (!shows) return;
        ObjectNode out = JsonNodeFactory.instance.objectNode().put("event", name).put("seconds", nanos / 1e9)
            .put("cpu_seconds", cpu / 1e9).put("records", records);
        long[] sums = new long[5];
        for (int topic = 0; topic < sizes.length; topic++) {
            for (int number = 0; number < sizes[topic]; number++) {
                PartitionRegistration p = cluster.topics.getPartition(ids.get(topic), number);
                if (p.leader < 0) sums[0]++;
                sums[1] += p.leader;
                sums[2] += p.leaderEpoch;
                sums[3] += p.partitionEpoch;
                sums[4] += p.isr.length;
            }
        }
        for (long sum : sums) out.withArray("state").add(sum);
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        out.put("heap", runtime.totalMemory() - runtime.freeMemory()).put("resident", resident());
        System.out.println(out);
    }

    private static long resident() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        throw new IllegalStateException("/proc/self/status has no VmRSS");
    }
}
