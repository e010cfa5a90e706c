import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Members of groups, transactional producers and Kafka's own tools behind lines of JSON, in one machine; see
 * ../members.py.
 */
public final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String bootstrap;
    private final List<Member> members = new ArrayList<>();
    private final List<KafkaProducer<String, String>> producers = new ArrayList<>();

    private Members(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        Members host = new Members(arguments[0]);
        PrintStream out = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = questions.readLine()) != null; ) {
            JsonNode given = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode().put("id", given.get("id").asInt());
            try {
                answer.set("result", JSON.valueToTree(host.call(given)));
            } catch (Throwable error) {
                answer.put("code", codeOf(error)).put("message", String.valueOf(error));
            }
            out.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    private Object call(JsonNode given) throws Exception {
        Member member = given.has("member") ? members.get(given.get("member").asInt()) : null;
        var producer = given.has("producer") ? producers.get(given.get("producer").asInt()) : null;
        switch (given.get("call").asText()) {
            case "join": members.add(new Member(given)); return members.size() - 1;
            case "state": return member.told();
            case "commit": return member.commit(given);
            case "committed": return member.run(() -> {
                var found = member.consumer.committed(Set.of(place(given))).get(place(given));
                return found == null ? null : List.of(found.offset(), found.metadata());
            });
            case "seek": return member.run(() -> {
                member.consumer.seek(place(given), given.get("offset").asLong());
                return null;
            });
            case "pause": return member.run(() -> {
                member.consumer.pause(offsets(given.get("places")).keySet());
                return null;
            });
            case "resume": return member.run(() -> {
                member.consumer.resume(offsets(given.get("places")).keySet());
                return null;
            });
            case "leave": member.run(() -> member.isOver = true); member.join(); return null;
            case "open_producer": return openProducer(given);
            case "begin": producer.beginTransaction(); return null;
            case "send": return send(producer, given);
            case "send_offsets":
                producer.sendOffsetsToTransaction(
                    offsets(given.get("offsets")), member.run(() -> member.consumer.groupMetadata()));
                return null;
            case "commit_transaction": producer.commitTransaction(); return null;
            case "abort_transaction": producer.abortTransaction(); return null;
            case "tool": return tool(given);
            default: throw new IllegalArgumentException("no such call: " + given);
        }
    }

    private int openProducer(JsonNode given) {
        var producer = new KafkaProducer<>(
            Map.<String, Object>of("bootstrap.servers", bootstrap,
                "transactional.id", given.get("transactional_id").asText(),
                "transaction.timeout.ms", given.get("timeout_ms").asInt(), "max.block.ms", 20000),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producers.add(producer);
        return producers.size() - 1;
    }

    private static Object send(KafkaProducer<String, String> producer, JsonNode given) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        TopicPartition place = place(given);
        for (JsonNode value : given.get("values")) {
            sent.add(producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value.asText())));
        }
        producer.flush();
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
        return null;
    }

    /** Run a tool's main here, where the machine is warm: its exit code and all it printed. */
    private static Object tool(JsonNode given) throws Exception {
        List<String> arguments = JSON.convertValue(given.get("arguments"), new TypeReference<>() {});
        PrintStream out = System.out, error = System.err;
        var said = new ByteArrayOutputStream();
        var paper = new PrintStream(said, true);
        int[] code = {0};
        Exit.Procedure leave = (status, message) -> {
            code[0] = status;
            throw new Left();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        System.setOut(paper);
        System.setErr(paper);
        try {
            Class.forName(given.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Left)) {
                failure.getCause().printStackTrace(paper);
                code[0] = 1;
            }
        } finally {
            System.setOut(out);
            System.setErr(error);
        }
        return Map.of("code", code[0], "said", said.toString());
    }

    private static final class Left extends Error {}

    /** A consumer that its own thread polls and alone touches. */
    private final class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final ConcurrentLinkedQueue<Runnable> work = new ConcurrentLinkedQueue<>();
        final ConcurrentLinkedQueue<List<Object>> records = new ConcurrentLinkedQueue<>();
        final List<Object> events = new ArrayList<>();
        volatile List<List<Object>> assigned = List.of();
        volatile Short error;
        volatile boolean isOver;

        Member(JsonNode given) {
            Map<String, Object> settings = new HashMap<>();
            boolean isClassic = given.get("protocol").asText().equals("classic");
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", given.get("group").asText());
            settings.put("group.protocol", given.get("protocol").asText());
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", given.get("auto_commit").asBoolean());
            settings.put("isolation.level", given.get("isolation").asText());
            settings.put("metadata.max.age.ms", 1000);
            settings.put("fetch.max.wait.ms", 100);
            if (!given.get("instance").isNull()) {
                settings.put("group.instance.id", given.get("instance").asText());
            }
            if (isClassic) {
                settings.put("partition.assignment.strategy", ASSIGNORS.get(given.get("assignor").asText()));
                settings.put("session.timeout.ms", given.get("session_ms").asInt());
                settings.put("heartbeat.interval.ms", 300);
            } else if (!given.get("assignor").isNull()) {
                settings.put("group.remote.assignor", given.get("assignor").asText());
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            String pattern = given.get("pattern").asText();
            if (given.get("pattern").isNull()) {
                consumer.subscribe(JSON.convertValue(given.get("topics"), new TypeReference<List<String>>() {}), this);
            } else if (isClassic) {
                consumer.subscribe(Pattern.compile(pattern), this);
            } else {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            }
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (!isOver) {
                for (Runnable next; (next = work.poll()) != null; ) {
                    next.run();
                }
                try {
                    consumer.poll(Duration.ofMillis(50)).forEach(row ->
                        records.add(List.of(row.topic(), row.partition(), row.offset(), String.valueOf(row.value()))));
                    assigned = rows(consumer.assignment());
                } catch (RuntimeException failure) {
                    error = codeOf(failure);
                }
            }
            consumer.close();
        }

        <T> T run(Callable<T> wanted) throws Exception {
            CompletableFuture<T> done = new CompletableFuture<>();
            work.add(() -> {
                try {
                    done.complete(wanted.call());
                } catch (Throwable failure) {
                    done.completeExceptionally(failure);
                }
            });
            return done.get();
        }

        Object told() {
            List<Object> rows = new ArrayList<>();
            for (Object row; (row = records.poll()) != null; ) {
                rows.add(row);
            }
            Map<String, Object> told = new HashMap<>();
            synchronized (events) {
                told.put("events", new ArrayList<>(events));
            }
            told.put("assigned", assigned);
            told.put("records", rows);
            told.put("error", error);
            return told;
        }

        Object commit(JsonNode given) throws Exception {
            var wanted = given.get("offsets").isNull() ? null : offsets(given.get("offsets"));
            if (given.get("mode").asText().equals("sync")) {
                return run(() -> {
                    if (wanted == null) {
                        consumer.commitSync();
                    } else {
                        consumer.commitSync(wanted);
                    }
                    return null;
                });
            }
            CompletableFuture<Object> answer = new CompletableFuture<>();
            run(() -> {
                consumer.commitAsync(wanted == null ? consumed() : wanted, (done, failure) -> {
                    if (failure == null) {
                        answer.complete(null);
                    } else {
                        answer.completeExceptionally(failure);
                    }
                });
                return null;
            });
            return answer.get();
        }

        private Map<TopicPartition, OffsetAndMetadata> consumed() {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            consumer.assignment().forEach(place -> found.put(place, new OffsetAndMetadata(consumer.position(place))));
            return found;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            note("assigned", places);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            note("revoked", places);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            note("lost", places);
        }

        private void note(String kind, Collection<TopicPartition> places) {
            synchronized (events) {
                events.add(List.of(kind, rows(places)));
            }
        }
    }

    private static short codeOf(Throwable error) {
        boolean isCoat = error instanceof ExecutionException
            || (Errors.forException(error) == Errors.UNKNOWN_SERVER_ERROR && error.getCause() != null);
        return isCoat ? codeOf(error.getCause()) : Errors.forException(error).code();
    }

    private static TopicPartition place(JsonNode given) {
        return new TopicPartition(given.get("topic").asText(), given.get("partition").asInt());
    }

    private static List<List<Object>> rows(Collection<TopicPartition> places) {
        return places.stream().map(place -> List.<Object>of(place.topic(), place.partition())).toList();
    }

    /** Of rows of topic and partition, and perhaps offset and metadata. */
    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode rows) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (JsonNode row : rows) {
            found.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()),
                new OffsetAndMetadata(row.path(2).asLong(0), row.path(3).asText("")));
        }
        return found;
    }
}
