import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Java's ConcurrentHashMap under random puts and removals, as answers of the JVM.
 *
 * <pre>java ConcurrentOrders.java SEED COUNT | gzip -n9 > concurrent_orders.jsonl.gz</pre>
 *
 * One sequence a line: [hash, is it a put, the order of the hashes afterwards] of each step; the
 * order is given every twentieth step, and null elsewhere. Few distinct low bits make trees.
 */
class ConcurrentOrders {
    private static final int[] STRIDES = {1, 64, 97, 128, 1024, 65536};

    record Key(int hash) {
        @Override
        public int hashCode() {
            return hash;
        }
    }

    public static void main(String[] arguments) {
        long seed = Long.parseLong(arguments[0]);
        for (int n = 0; n < Integer.parseInt(arguments[1]); n++) {
            System.out.println(sequence(new Random(seed + n)));
        }
    }

    private static List<List<Object>> sequence(Random random) {
        ConcurrentHashMap<Key, Integer> map = new ConcurrentHashMap<>();
        List<List<Object>> steps = new ArrayList<>();
        int stride = STRIDES[random.nextInt(STRIDES.length)];
        int distinct = 10 + random.nextInt(60);
        int length = 20 + 10 * random.nextInt(20);
        for (int step = 1; step <= length; step++) {
            int hash = stride * random.nextInt(distinct) * (random.nextInt(50) == 0 ? -1 : 1);
            Key key = new Key(random.nextInt(4) == 0 ? hash + random.nextInt(3) : hash);
            boolean puts = random.nextDouble() < (step / 50 % 2 == 0 ? 0.9 : 0.1);
            if (puts) {
                map.put(key, step);
            } else {
                map.remove(key);
            }
            List<Integer> order = map.keySet().stream().map(Key::hash).toList();
            steps.add(List.of(key.hash(), puts, step % 20 == 0 ? order : "null"));
        }
        return steps;
    }
}
