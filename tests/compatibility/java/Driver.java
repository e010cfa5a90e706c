import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client behind lines of JSON on standard input and output; see ../drivers/lines.py. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LATEST = -1, EARLIEST = -2, MAX_TIMESTAMP = -3;

    private final String bootstrap;
    private final Admin admin;
    private final Map<Integer, KafkaConsumer<byte[], byte[]>> readers = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 20000,
            "request.timeout.ms", 10000));
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver(arguments[0]);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = questions.readLine()) != null; ) {
            JsonNode given = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode().put("id", given.get("id").asInt());
            try {
                answer.set("result", JSON.valueToTree(driver.call(given)));
            } catch (Throwable error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                short code = cause instanceof OffsetOutOfRangeException ? 1 : Errors.forException(cause).code();
                answer.put("code", code).put("message", String.valueOf(cause));
            }
            System.out.println(answer);
        }
        driver.readers.values().forEach(KafkaConsumer::close);
        driver.admin.close();
    }

    private Object call(JsonNode given) throws Exception {
        String topic = given.path("topic").asText();
        TopicPartition place = new TopicPartition(topic, given.path("partition").asInt());
        switch (given.get("call").asText()) {
            case "produce": return produce(place, given);
            case "open": return open(place, given);
            case "poll": return poll(given);
            case "close": readers.remove(given.get("reader").asInt()).close(); return null;
            case "list_offset": return listOffset(place, given.get("timestamp").asLong());
            case "create_topic": return createTopic(topic, given);
            case "delete_topic": return admin.deleteTopics(List.of(topic)).all().get();
            case "create_partitions":
                return admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(given.get("total").asInt()))).all().get();
            case "delete_records": return deleteRecords(place, given.get("before_offset").asLong());
            case "list_topics": return admin.listTopics().names().get();
            case "describe_topic": return describeTopic(topic);
            case "describe_cluster": return describeCluster();
            case "describe_log_dirs": return describeLogDirs(topic);
            case "describe_configs": return describeConfigs(resource(given));
            case "alter_configs": return alterConfigs(resource(given), given.get("configs"));
            case "list_groups": return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            case "describe_group": return describeGroup(given.get("group").asText());
            case "group_offsets": return groupOffsets(given.get("group").asText(), topic);
            case "set_group_offsets": return setGroupOffsets(given.get("group").asText(), topic, given.get("offsets"));
            case "delete_group":
                return admin.deleteConsumerGroups(List.of(given.get("group").asText())).all().get();
            default: throw new IllegalArgumentException("no such call: " + given);
        }
    }

    private Object produce(TopicPartition place, JsonNode given) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", given.get("acks").asText());
        settings.put("enable.idempotence", given.get("idempotent").asBoolean());
        settings.put("compression.type", given.get("codec").asText());
        settings.put("linger.ms", 1000);
        settings.put("batch.size", 8 << 20);
        settings.put("max.request.size", 16 << 20);
        settings.put("max.block.ms", 15000);
        settings.put("request.timeout.ms", 10000);
        settings.put("delivery.timeout.ms", 15000);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode row : given.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode pair : row.get("headers")) {
                    headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
                }
                Long timestamp = row.get("timestamp_ms").isNull() ? null : row.get("timestamp_ms").asLong();
                sent.add(producer.send(new ProducerRecord<>(
                    place.topic(), place.partition(), timestamp, bytes(row.get("key")), bytes(row.get("value")), headers)));
            }
            producer.flush();
            List<Long> offsets = new ArrayList<>();
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().hasOffset() ? future.get().offset() : -1);
            }
            return offsets;
        }
    }

    private Object open(TopicPartition place, JsonNode given) {
        var consumer = new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "none", "fetch.max.wait.ms", 200,
                "max.poll.records", 100000),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(place));
        if (given.has("at_ms")) {
            consumer.seek(place, consumer.offsetsForTimes(Map.of(place, given.get("at_ms").asLong())).get(place).offset());
        } else if (given.get("offset").asLong() == EARLIEST) {
            consumer.seekToBeginning(List.of(place));
        } else if (given.get("offset").asLong() == LATEST) {
            consumer.seekToEnd(List.of(place));
        } else {
            consumer.seek(place, given.get("offset").asLong());
        }
        consumer.position(place);
        int reader = System.identityHashCode(consumer);
        readers.put(reader, consumer);
        return reader;
    }

    private Object poll(JsonNode given) {
        var consumer = readers.get(given.get("reader").asInt());
        ArrayNode rows = JSON.createArrayNode();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(given.get("timeout_ms").asLong()))) {
            ObjectNode row = rows.addObject().put("offset", record.offset()).put("timestamp_ms", record.timestamp());
            row.put("key", text(record.key())).put("value", text(record.value()));
            ArrayNode headers = row.putArray("headers");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(text(header.value()));
            }
        }
        return rows;
    }

    private Object listOffset(TopicPartition place, long timestamp) throws Exception {
        OffsetSpec spec = timestamp == LATEST ? OffsetSpec.latest()
            : timestamp == EARLIEST ? OffsetSpec.earliest()
            : timestamp == MAX_TIMESTAMP ? OffsetSpec.maxTimestamp() : OffsetSpec.forTimestamp(timestamp);
        return admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
    }

    private Object createTopic(String topic, JsonNode given) throws Exception {
        Map<String, String> configs = JSON.convertValue(given.get("configs"), new TypeReference<>() {});
        var wanted = new NewTopic(topic, given.get("partitions").asInt(), (short) given.get("replicas").asInt());
        return admin.createTopics(List.of(wanted.configs(configs))).all().get();
    }

    private Object deleteRecords(TopicPartition place, long beforeOffset) throws Exception {
        var wanted = Map.of(place, RecordsToDelete.beforeOffset(beforeOffset));
        return admin.deleteRecords(wanted).lowWatermarks().get(place).get().lowWatermark();
    }

    private Object describeTopic(String topic) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (var partition : admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get().partitions()) {
            rows.add(Map.of("index", partition.partition(), "leader", partition.leader().id(),
                "replicas", ids(partition.replicas()), "in_sync", ids(partition.isr())));
        }
        return rows;
    }

    private Object describeCluster() throws Exception {
        var found = admin.describeCluster();
        Map<Integer, String> brokers = new HashMap<>();
        for (Node node : found.nodes().get()) {
            brokers.put(node.id(), node.host() + ":" + node.port());
        }
        return Map.of("cluster_id", found.clusterId().get(), "controller", found.controller().get().id(), "brokers", brokers);
    }

    private Object describeLogDirs(String topic) throws Exception {
        var brokers = admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        Map<Integer, Long> sizes = new HashMap<>();
        for (var folders : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (var folder : folders.values()) {
                folder.replicaInfos().forEach((place, replica) -> {
                    if (place.topic().equals(topic)) {
                        sizes.put(place.partition(), replica.size());
                    }
                });
            }
        }
        return sizes;
    }

    private Object describeConfigs(ConfigResource resource) throws Exception {
        Map<String, String> values = new HashMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            values.put(entry.name(), entry.value());
        }
        return values;
    }

    private Object alterConfigs(ConfigResource resource, JsonNode configs) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        configs.properties().forEach(change -> changes.add(new AlterConfigOp(
            new ConfigEntry(change.getKey(), change.getValue().isNull() ? "" : change.getValue().asText()),
            change.getValue().isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        return admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private Object describeGroup(String group) throws Exception {
        var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return Map.of("state", found.groupState().toString(), "assignor", found.partitionAssignor(),
            "members", found.members().size());
    }

    private Object groupOffsets(String group, String topic) throws Exception {
        Map<Integer, Long> offsets = new HashMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((place, found) -> {
            if (place.topic().equals(topic)) {
                offsets.put(place.partition(), found.offset());
            }
        });
        return offsets;
    }

    private Object setGroupOffsets(String group, String topic, JsonNode offsets) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        offsets.properties().forEach(row -> wanted.put(
            new TopicPartition(topic, Integer.parseInt(row.getKey())), new OffsetAndMetadata(row.getValue().asLong())));
        return admin.alterConsumerGroupOffsets(group, wanted).all().get();
    }

    private static ConfigResource resource(JsonNode given) {
        return given.has("topic")
            ? new ConfigResource(ConfigResource.Type.TOPIC, given.get("topic").asText())
            : new ConfigResource(ConfigResource.Type.BROKER, given.get("broker").asText());
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] raw) {
        return raw == null ? null : Base64.getEncoder().encodeToString(raw);
    }
}
