import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** What Apache Kafka's own converters, transforms and predicates make of cases; both are JSON, from stdin to stdout. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class ConnectData {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter ENVELOPES = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        ENVELOPES.configure(Map.of("schemas.enable", "true"), false);
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode asked : JSON.readTree(System.in)) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(asked, answer);
            } catch (Exception | StackOverflowError error) {
                answer.removeAll();
                answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            answers.add(answer);
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static void answer(JsonNode asked, ObjectNode answer) throws Exception {
        switch (asked.get("do").asText()) {
            case "convert": {
                JsonConverter converter = new JsonConverter();
                converter.configure(config(asked), false);
                SchemaAndValue found = opened(asked.get("envelope"));
                answer.put("data", text(converter.fromConnectData("topic", found.schema(), found.value())));
                found = converter.toConnectData("topic", bytes(asked.get("data")));
                answer.put("envelope", envelope(found));
                break;
            }
            case "literal": {
                SchemaAndValue found = Values.parseString(asked.get("text").asText());
                answer.put("envelope", envelope(found));
                answer.put("written", Values.convertToString(found.schema(), found.value()));
                break;
            }
            case "text": {
                StringConverter converter = new StringConverter();
                converter.configure(config(asked), false);
                SchemaAndValue found = opened(asked.get("envelope"));
                answer.put("text", text(converter.fromConnectData("topic", found.schema(), found.value())));
                break;
            }
            case "options": {
                for (ConfigDef.ConfigKey key : options(asked.get("class").asText()).configKeys().values()) {
                    ObjectNode told = answer.putObject(key.name);
                    told.put("type", key.type.name());
                    told.put("importance", key.importance.name());
                    told.put("required", !key.hasDefault());
                    told.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                }
                break;
            }
            case "predicate": {
                Predicate predicate = made(asked);
                predicate.configure(config(asked));
                answer.put("holds", predicate.test(record(asked)));
                break;
            }
            default: {
                Transformation transform = made(asked);
                transform.configure(config(asked));
                tell((ConnectRecord) transform.apply(record(asked)), answer);
            }
        }
    }

    private static ConfigDef options(String name) throws Exception {
        if (name.equals("sink")) return SinkConnectorConfig.configDef();
        if (name.equals("source")) return SourceConnectorConfig.configDef();
        Object plugin = Class.forName(name).getDeclaredConstructor().newInstance();
        if (plugin instanceof Transformation) return ((Transformation) plugin).config();
        if (plugin instanceof Predicate) return ((Predicate) plugin).config();
        return ((HeaderConverter) plugin).config();
    }

    private static <T> T made(JsonNode asked) throws Exception {
        return (T) Class.forName(asked.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> config(JsonNode asked) {
        Map<String, String> config = new HashMap<>();
        if (asked.has("config")) {
            for (Map.Entry<String, JsonNode> one : asked.get("config").properties()) config.put(one.getKey(), one.getValue().asText());
        }
        return config;
    }

    private static ConnectRecord record(JsonNode asked) {
        SchemaAndValue key = opened(asked.get("key"));
        SchemaAndValue value = opened(asked.get("value"));
        String topic = asked.get("topic").asText();
        Integer partition = asked.hasNonNull("partition") ? asked.get("partition").asInt() : null;
        Long timestamp = asked.hasNonNull("timestamp") ? asked.get("timestamp").asLong() : null;
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : asked.get("headers")) headers.add(header.get(0).asText(), opened(header.get(1)));
        if (!asked.hasNonNull("offset")) {
            return new SourceRecord(
                    Map.of(), Map.of(), topic, partition, key.schema(), key.value(), value.schema(), value.value(), timestamp, headers);
        }
        return new SinkRecord(topic, partition, key.schema(), key.value(), value.schema(), value.value(),
                asked.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
    }

    private static void tell(ConnectRecord record, ObjectNode answer) {
        if (record == null) {
            answer.put("gone", true);
            return;
        }
        answer.put("topic", record.topic());
        answer.put("key", envelope(new SchemaAndValue(record.keySchema(), record.key())));
        answer.put("value", envelope(new SchemaAndValue(record.valueSchema(), record.value())));
        ArrayNode headers = answer.putArray("headers");
        for (Header header : (Iterable<Header>) record.headers()) {
            headers.addArray().add(header.key()).add(envelope(new SchemaAndValue(header.schema(), header.value())));
        }
    }

    private static SchemaAndValue opened(JsonNode envelope) {
        return ENVELOPES.toConnectData("topic", bytes(envelope));
    }

    private static String envelope(SchemaAndValue found) {
        if (found == null) return null;
        return text(ENVELOPES.fromConnectData("topic", found.schema(), found.value()));
    }

    private static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
