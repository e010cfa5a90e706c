import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of some records over some partitions, one after the other, as fast as Kafka's own producer goes with its
 * default settings; prints how many seconds those after the warm-up took.
 */
public final class Transactions {
    private Transactions() {
    }

    public static void main(String[] given) {
        String topic = given[1];
        int transactions = Integer.parseInt(given[2]);
        int warmUp = Integer.parseInt(given[3]);
        int records = Integer.parseInt(given[4]);
        int partitions = Integer.parseInt(given[5]);
        byte[] value = new byte[Integer.parseInt(given[6])];

        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("transactional.id", "java-" + topic);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            long started = System.nanoTime();
            for (int number = 0; number < warmUp + transactions; number++) {
                if (number == warmUp) {
                    started = System.nanoTime();
                }
                producer.beginTransaction();
                for (int at = 0; at < records; at++) {
                    producer.send(new ProducerRecord<>(topic, at % partitions, null, value));
                }
                producer.commitTransaction();  // It throws where a record was refused.
            }
            System.out.println((System.nanoTime() - started) / 1e9);
        }
    }
}
