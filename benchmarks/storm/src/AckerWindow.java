import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.daemon.Acker;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.GeneralTopologyContext;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.VersionInfo;

/**
 * Storm's Acker over a sliding window of pending trees: what `benchmarks.ledger` does with our ledger.
 *
 * <p>Arguments: a file of ids, pending trees, messages of a kind in a round, messages of a kind in a batch. The file
 * holds the roots, their vals and the order of the acks, each as 64-bit little-endian integers.
 *
 * <p>Says in one line of JSON what it is and what a pending tree takes. Then runs a round for each line on its standard
 * input, and answers with a line of JSON; ends with its input. Only calls of `Acker.execute` are timed. All tuples of a
 * round were made before it, and are Storm's own; the collector behind the Acker counts, and does nothing else.
 */
public final class AckerWindow {
    private static final String ACKER = "__acker";
    private static final String SPOUT = "spout";
    private static final String BOLT = "bolt";
    private static final Integer SPOUT_TASK = 1;
    private static final int BOLT_TASK = 2;

    /** What Storm's executor would send on: counted, so that the round can be checked. */
    private static final class Counting implements IOutputCollector {
        long notices;
        long acks;

        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            throw new IllegalStateException("the Acker emits directly");
        }

        @Override
        public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
            notices++;
        }

        @Override
        public void ack(Tuple input) {
            acks++;
        }

        @Override
        public void fail(Tuple input) {
            throw new IllegalStateException("the Acker fails no tuple");
        }

        @Override
        public void resetTimeout(Tuple input) {
            throw new IllegalStateException("the Acker resets no tuple");
        }

        @Override
        public void flush() {}

        @Override
        public void reportError(Throwable error) {
            throw new IllegalStateException(error);
        }
    }

    private final int pending;
    private final int turns;
    private final int batch;
    private final LongBuffer ids;
    private final GeneralTopologyContext context;
    private Tuple[] inits;
    private Tuple[] acks;

    private AckerWindow(Path file, int pending, int turns, int batch) throws IOException {
        this.pending = pending;
        this.turns = turns;
        this.batch = batch;
        try (FileChannel channel = FileChannel.open(file)) {
            ids = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size())
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .asLongBuffer();
        }
        context = new GeneralTopologyContext(
                new StormTopology(Map.of(), Map.of(), Map.of()),
                Map.of(Config.TOPOLOGY_DEBUG, false),
                Map.of(1, SPOUT, 2, BOLT, 3, ACKER),
                Map.of(SPOUT, List.of(1), BOLT, List.of(2), ACKER, List.of(3)),
                Map.of(
                        SPOUT, Map.of(Acker.ACKER_INIT_STREAM_ID, new Fields("id", "init-val", "spout-task")),
                        BOLT, Map.of(Acker.ACKER_ACK_STREAM_ID, new Fields("id", "ack-val"))),
                "benchmark");
    }

    private long root(int index) {
        return ids.get(index);
    }

    private long val(int index) {
        return ids.get(pending + turns + index);
    }

    private int acked(int index) {
        return (int) ids.get(2 * (pending + turns) + index);
    }

    private Tuple init(int index) {
        Values values = new Values(root(index), val(index), SPOUT_TASK);
        return new TupleImpl(context, values, SPOUT, SPOUT_TASK, Acker.ACKER_INIT_STREAM_ID);
    }

    private Tuple ack(int index) {
        Values values = new Values(root(index), val(index));
        return new TupleImpl(context, values, BOLT, BOLT_TASK, Acker.ACKER_ACK_STREAM_ID);
    }

    private Acker filled(Counting collector) {
        Acker acker = new Acker();
        acker.prepare(Map.of(), null, new OutputCollector(collector));
        for (int index = 0; index < pending; index++) {
            acker.execute(init(index));
        }
        check(collector.notices == 0, "a notice came while the window was filled");
        return acker;
    }

    /** Bytes of heap that a pending tree takes, once everything else is collected. */
    private double heapOfTree() {
        filled(new Counting()); // so that what is loaded once is not counted
        long before = heap();
        Acker acker = filled(new Counting());
        long after = heap();
        java.lang.ref.Reference.reachabilityFence(acker);
        return (double) (after - before) / pending;
    }

    private static long heap() {
        for (int time = 0; time < 2; time++) {
            System.gc();
        }
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private void prepareTuples() {
        inits = new Tuple[turns];
        acks = new Tuple[turns];
        for (int index = 0; index < turns; index++) {
            inits[index] = init(pending + index);
            acks[index] = ack(acked(index));
        }
    }

    /** Messages a second over one round, from a window that was filled before. */
    private double round() {
        Counting collector = new Counting();
        Acker acker = filled(collector);
        System.gc();
        long began = System.nanoTime();
        for (int start = 0; start < turns; start += batch) {
            int end = Math.min(start + batch, turns);
            for (int index = start; index < end; index++) {
                acker.execute(acks[index]);
            }
            for (int index = start; index < end; index++) {
                acker.execute(inits[index]);
            }
        }
        long took = System.nanoTime() - began;
        check(collector.notices == turns, "acked: " + collector.notices);
        check(collector.acks == pending + 2L * turns, "executed: " + collector.acks);
        return 2.0 * turns / took * 1e9;
    }

    private static void check(boolean holds, String message) {
        if (!holds) {
            throw new IllegalStateException(message);
        }
    }

    public static void main(String[] args) throws IOException {
        AckerWindow window = new AckerWindow(
                Path.of(args[0]), Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        List<String> collectors = new ArrayList<>();
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            collectors.add(bean.getName());
        }
        double bytes = window.heapOfTree();
        window.prepareTuples();
        System.out.printf(
                "{\"bytes_per_tree\": %.1f, \"versions\": {\"storm\": \"%s\", \"java\": \"%s\", \"gc\": \"%s\", "
                        + "\"heap_mb\": \"%d\"}}%n",
                bytes,
                VersionInfo.getVersion(),
                System.getProperty("java.version"),
                String.join(", ", collectors),
                Runtime.getRuntime().maxMemory() >> 20);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {
            System.out.printf("{\"messages_per_second\": %.0f}%n", window.round());
        }
    }
}
