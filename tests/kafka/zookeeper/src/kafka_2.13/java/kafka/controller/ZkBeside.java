package kafka.controller;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.api.LeaderAndIsr;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData.PartitionData;
import org.apache.kafka.common.message.AlterPartitionRequestData.TopicData;
import org.apache.kafka.common.requests.AbstractControlRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.StopReplicaRequest;

import scala.Function1;
import scala.runtime.BoxedUnit;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;

/**
 * Times one large cluster in Kafka's KafkaController: `make beside`. Arguments: the file of the cluster (see
 * benchmarks/beside.py), its number of brokers, and the file of a small cluster and how often it runs before, which
 * lets the JVM compile. Each line of the output is what one event took and the state after it.
 */
public final class ZkBeside {
    private static final short BY_TOPIC_ID = 2;

    private final MemoryZooKeeper nodes = MemoryZooKeeper.create();
    private final KafkaController controller;
    private final int[] sizes;
    private final List<Uuid> ids = new ArrayList<>();
    private final boolean shows;
    private final long heapOfNodes;
    private long epoch = 1;
    private long asked;

    private ZkBeside(int brokers, IntBuffer file, boolean shows) throws Exception {
        this.shows = shows;
        int factor = file.get();
        sizes = new int[file.get()];
        file.get(sizes);
        for (int broker = 0; broker < brokers; broker++) register(broker);
        int[] replicas = new int[factor];
        for (int topic = 0; topic < sizes.length; topic++) {
            StringBuilder assignment = new StringBuilder();
            for (int number = 0; number < sizes[topic]; number++) {
                file.get(replicas);
                String list = Arrays.toString(replicas);
                assignment.append(number == 0 ? "" : ",").append('"').append(number).append("\":").append(list);
                nodes.put("/brokers/topics/topic-" + topic + "/partitions/" + number + "/state", ("{\"controller_epoch\":1,"
                    + "\"leader\":" + replicas[0] + ",\"version\":1,\"leader_epoch\":0,\"isr\":" + list + "}").getBytes());
            }
            ids.add(new Uuid(1, topic + 1000));
            nodes.put("/brokers/topics/topic-" + topic, ("{\"version\":3,\"topic_id\":\"" + ids.get(topic)
                + "\",\"partitions\":{" + assignment + "},\"adding_replicas\":{},\"removing_replicas\":{}}").getBytes());
        }
        nodes.put("/controller_epoch", "1".getBytes());
        Properties properties = new Properties();
        properties.put("broker.id", "0");
        controller = ZkCluster.controller(properties, Release.client(nodes), nodes, CountedBatch::new);
        heapOfNodes = shows ? heap() : 0;
    }

    public static void main(String[] args) throws Exception {
        int brokers = Integer.parseInt(args[1]);
        for (int i = Integer.parseInt(args[3]); i > 0; i--) run(args[2], brokers, false);
        run(args[0], brokers, true);
        System.exit(0);
    }

    private static void run(String path, int brokers, boolean shows) throws Exception {
        IntBuffer file = ByteBuffer.wrap(Files.readAllBytes(Path.of(path))).asIntBuffer();
        int[] one = new int[file.get()];
        file.get(one);
        int[] rack = new int[file.get()];
        file.get(rack);
        ZkBeside beside = new ZkBeside(brokers, file, shows);
        beside.run("load", () -> ZkCluster.process(beside.controller, Reelect$.MODULE$));
        for (int broker : one) beside.changeBrokers("fail one", () -> beside.fail(broker));
        beside.changeBrokers("fail a third", () -> beside.fail(rack));
        beside.changeBrokers("return of a third", () -> { for (int broker : rack) beside.register(broker); });
        beside.catchUp("catch up of a third", rack);
        beside.run("rebalance leaders",
            () -> ZkCluster.process(beside.controller, AutoPreferredReplicaLeaderElection$.MODULE$));
        beside.controller.kafkaScheduler().shutdown();
    }

    // ---------------------------------------------------------------------------------------------------- events

    /** Kafka's batch of requests; they are counted and go nowhere. */
    private final class CountedBatch extends ControllerBrokerRequestBatch {
        CountedBatch(
            KafkaConfig config, ControllerChannelManager channels, ControllerEventManager events,
            ControllerContext context
        ) {
            super(config, channels, events, context, new StateChangeLogger(0, true, scala.Option.empty()));
        }

        @Override
        public void sendRequest(
            int broker, AbstractControlRequest.Builder<? extends AbstractControlRequest> builder,
            Function1<AbstractResponse, BoxedUnit> callback
        ) {
            if (builder instanceof StopReplicaRequest.Builder) throw new IllegalStateException("a replica is stopped");
            try {
                asked += ((Collection<?>) Fields.get(builder, "partitionStates")).size();
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private void register(int broker) {
        ZkCluster.register(nodes, String.valueOf(broker), epoch++);
    }

    private void fail(int... brokers) {
        for (int broker : brokers) nodes.remove("/brokers/ids/" + broker);
    }

    private void changeBrokers(String name, Runnable change) throws Exception {
        change.run();
        run(name, () -> ZkCluster.process(controller, BrokerChange$.MODULE$));
    }

    /** Each leader reports that the replicas on these brokers are in sync; its request exists before. */
    private void catchUp(String name, int... brokers) throws Exception {
        Set<Object> returned = new HashSet<>();
        for (int broker : brokers) returned.add(broker);
        Map<Integer, AlterPartitionRequestData> requests = new TreeMap<>();
        for (int topic = 0; topic < sizes.length; topic++)
            for (int number = 0; number < sizes[topic]; number++)
                report(requests, topic, new TopicPartition("topic-" + topic, number), returned);
        run(name, () -> requests.values().forEach(request -> ZkCluster.process(controller,
            new AlterPartitionReceived(request, BY_TOPIC_ID, response -> BoxedUnit.UNIT))));
    }

    private void report(
        Map<Integer, AlterPartitionRequestData> requests, int topic, TopicPartition partition, Set<Object> returned
    ) {
        LeaderAndIsr record = record(partition);
        List<Integer> isr = new ArrayList<>();
        for (Object member : Scala.list(record.isr())) isr.add((Integer) member);
        for (Object replica : Scala.list(controller.controllerContext().partitionReplicaAssignment(partition)))
            if (returned.contains(replica) && !isr.contains(replica)) isr.add((Integer) replica);
        if (isr.size() == record.isr().size()) return;
        AlterPartitionRequestData request = requests.computeIfAbsent(record.leader(), leader ->
            new AlterPartitionRequestData().setBrokerId(leader)
                .setBrokerEpoch((Long) controller.controllerContext().liveBrokerIdAndEpochs().apply(leader)));
        List<TopicData> topics = request.topics();
        if (topics.isEmpty() || !topics.get(topics.size() - 1).topicId().equals(ids.get(topic)))
            topics.add(new TopicData().setTopicId(ids.get(topic)));
        topics.get(topics.size() - 1).partitions().add(new PartitionData().setPartitionIndex(partition.partition())
            .setLeaderEpoch(record.leaderEpoch()).setPartitionEpoch(record.partitionEpoch()).setNewIsr(isr));
    }

    private LeaderAndIsr record(TopicPartition partition) {
        return controller.controllerContext().partitionLeadershipInfo(partition).get().leaderAndIsr();
    }

    private void run(String name, Runnable event) throws Exception {
        asked = 0;
        long cpuBefore = cpuNanos();
        long before = System.nanoTime();
        event.run();
        long nanos = System.nanoTime() - before;
        long cpu = cpuNanos() - cpuBefore;
        controller.eventManager().clearAndPut(Startup$.MODULE$);
        if (shows) show(name, nanos, cpu);
    }

    // ----------------------------------------------------------------------------------------------------- output

    private static long cpuNanos() { return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(); }

    private static long heap() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    /** The nodes stand for ZooKeeper, which is another process: memory is the heap without them. */
    private void show(String name, long nanos, long cpu) throws Exception {
        ObjectNode out = new ObjectMapper().createObjectNode().put("event", name).put("seconds", nanos / 1e9)
            .put("cpu_seconds", cpu / 1e9).put("records", asked);
        long[] sums = new long[5];
        for (int topic = 0; topic < sizes.length; topic++) {
            for (int number = 0; number < sizes[topic]; number++) {
                LeaderAndIsr record = record(new TopicPartition("topic-" + topic, number));
                if (record.leader() < 0) sums[0]++;
                sums[1] += record.leader();
                sums[2] += record.leaderEpoch();
                sums[3] += record.partitionEpoch();
                sums[4] += record.isr().size();
            }
        }
        for (long sum : sums) out.withArray("state").add(sum);
        long heap = heap() - heapOfNodes;
        System.out.println(out.put("heap", heap).put("resident", heap));
    }
}
