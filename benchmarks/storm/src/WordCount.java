import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.VersionInfo;

/**
 * The word count of `benchmarks.word_count` in Storm: lines, split, count, in a LocalCluster with one worker.
 *
 * <p>Arguments: a file of lines; how many are emitted, beginning anew at its end; tasks of each component; pending
 * trees of a task of the spout; a directory for the counts; the share of the acks whose latencies are left out at the
 * beginning; and for bolts in Python, an interpreter and the programs of both bolts.
 *
 * <p>Says on standard output, in lines of JSON, how many lines are acked, ten times a second. Once all are, the spout
 * emits a tuple to all tasks of the count bolt, which then write their counts; the last line has the latencies.
 */
public final class WordCount {
    private static final String LINES = "lines";
    private static final String SPLIT = "split";
    private static final String COUNT = "count";
    private static final String END = "end";
    private static final Object END_ID = new Object() {};
    private static final int ACKERS = 2;
    private static final int TIMEOUT_SECONDS = 30;

    // All tasks are in this process: it is a local cluster.
    private static final AtomicLong ACKED = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static final CountDownLatch ENDED = new CountDownLatch(1);
    private static long[][] latencies;

    /** A line that is not acked yet. */
    private record Pending(int number, long began) {}

    /** Emits the lines that fall to its task; what fails comes again. */
    private static final class Lines extends BaseRichSpout {
        private final String file;
        private final int count;
        private final String directory;
        private transient SpoutOutputCollector collector;
        private transient List<String> text;
        private transient ArrayDeque<Integer> again;
        private transient long[] taken;
        private transient int acked;
        private transient int next;
        private transient int step;
        private transient boolean first;
        private transient boolean ending;

        Lines(String file, int count, String directory) {
            this.file = file;
            this.count = count;
            this.directory = directory;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
            try {
                text = Files.readAllLines(Path.of(file));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            again = new ArrayDeque<>();
            next = context.getThisTaskIndex();
            step = context.getComponentTasks(LINES).size();
            first = next == 0;
            taken = new long[count / step + 1];
            latencies[next] = taken;
        }

        @Override
        public void nextTuple() {
            Integer number = again.poll();
            if (number == null) {
                if (next >= count) {
                    end();
                    return;
                }
                number = next;
                next += step;
            }
            collector.emit(new Values(text.get(number % text.size())), new Pending(number, System.nanoTime()));
        }

        /** Lets the counts be written, once every line of every task is acked. */
        private void end() {
            if (first && !ending && ACKED.get() == count) {
                ending = true;
                collector.emit(END, new Values(directory), END_ID);
            }
        }

        @Override
        public void ack(Object id) {
            if (!(id instanceof Pending line)) {
                ENDED.countDown();
                return;
            }
            taken[acked++] = System.nanoTime() - line.began;
            ACKED.incrementAndGet(); // after what others read once all are acked
        }

        @Override
        public void fail(Object id) {
            FAILED.incrementAndGet();
            if (id instanceof Pending line) {
                again.add(line.number);
            } else {
                ending = false;
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("line"));
            declarer.declareStream(END, new Fields("directory"));
        }
    }

    /** Emits the words of a line. */
    private static final class Split extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple line) {
            for (String word : line.getString(0).split(" ")) {
                collector.emit(line, new Values(word));
            }
            collector.ack(line);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    /** Counts words in memory. */
    private static final class Count extends BaseRichBolt {
        private transient OutputCollector collector;
        private transient Map<String, Long> counts;
        private transient int task;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counts = new HashMap<>();
            task = context.getThisTaskIndex();
        }

        @Override
        public void execute(Tuple word) {
            if (word.getSourceStreamId().equals(END)) {
                write(Path.of(word.getString(0), "count-" + task));
            } else {
                counts.merge(word.getString(0), 1L, Long::sum);
            }
            collector.ack(word);
        }

        private void write(Path file) {
            StringBuilder rows = new StringBuilder();
            counts.forEach((word, count) -> rows.append(word).append(' ').append(count).append('\n'));
            try {
                Files.writeString(file, rows);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    /** A bolt in another language, a process for each task. */
    private static final class Shell extends ShellBolt implements IRichBolt {
        private final String[] fields;

        Shell(List<String> command, String... fields) {
            super(command.toArray(new String[0]));
            this.fields = fields;
            changeChildCWD(false);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            if (fields.length > 0) {
                declarer.declare(new Fields(fields));
            }
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }

    /** Latencies in milliseconds that shares of the acks do not exceed, without the first ones and the last tenth. */
    private static double[] quantiles(double first, double... shares) {
        long[] all = Arrays.stream(latencies)
                .flatMapToLong(task -> {
                    int took = (int) Arrays.stream(task).filter(each -> each > 0).count();
                    return Arrays.stream(task, (int) (first * took), took - took / 10);
                })
                .sorted()
                .toArray();
        return Arrays.stream(shares)
                .map(share -> all.length == 0 ? 0 : all[(int) (share * (all.length - 1))] / 1e6)
                .toArray();
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        int tasks = Integer.parseInt(args[2]);
        String directory = args[4];
        latencies = new long[tasks][];
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(LINES, new Lines(args[0], count, directory), tasks);
        boolean java = args.length == 6;
        IRichBolt split = java ? new Split() : new Shell(List.of(args[6], args[7]), "word");
        IRichBolt counting = java ? new Count() : new Shell(List.of(args[6], args[8]));
        builder.setBolt(SPLIT, split, tasks).shuffleGrouping(LINES);
        BoltDeclarer counted = builder.setBolt(COUNT, counting, tasks);
        counted.fieldsGrouping(SPLIT, new Fields("word")).allGrouping(LINES, END);
        Config config = new Config();
        config.setNumWorkers(1);
        config.setNumAckers(ACKERS);
        config.setMaxSpoutPending(Integer.parseInt(args[3]));
        config.setMessageTimeoutSecs(TIMEOUT_SECONDS);
        LocalCluster cluster = new LocalCluster();
        cluster.submitTopology("word-count", config, builder.createTopology());
        do {
            System.out.printf("{\"acked\": %d, \"failed\": %d}%n", ACKED.get(), FAILED.get());
        } while (!ENDED.await(100, TimeUnit.MILLISECONDS));
        double[] found = quantiles(Double.parseDouble(args[5]), 0.5, 0.99);
        System.out.printf(
                "{\"acked\": %d, \"failed\": %d, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"versions\": {\"storm\": \"%s\", "
                        + "\"java\": \"%s\"}}%n",
                ACKED.get(),
                FAILED.get(),
                found[0],
                found[1],
                VersionInfo.getVersion(),
                System.getProperty("java.version"));
        System.out.flush();
        cluster.close();
        System.exit(0);
    }
}
