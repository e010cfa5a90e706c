"""The lines of the main table and what each is held to."""

from bench.table import LESS, MB, MB_PER_S, MILLIONS, MILLIS, MORE, SECONDS, THOUSANDS, Row

LIBRDKAFKA = "librdkafka"
RAW = "raw client"
JAVA = "Kafka's Java tool"


def _latency(key: str, name: str, load: str) -> list[Row]:
    return [
        Row(f"{key}_p50", f"{name}, p50", load, MILLIS, LESS, of_ceiling=1.5),
        Row(f"{key}_p99", f"{name}, p99", load, MILLIS, LESS, of_ceiling=1.5, of_kafka=0.3),
    ]


ROWS = [
    Row("produce_100", "produce, 100 B, acks=1", LIBRDKAFKA, MILLIONS, MORE, of_ceiling=0.85),
    Row("consume_100", "consume, 100 B", LIBRDKAFKA, MILLIONS, MORE, of_ceiling=0.92),
    Row("produce_1k", "produce, 1 KB, acks=1", LIBRDKAFKA, MB_PER_S, MORE, of_ceiling=0.85),
    Row("consume_1k", "consume, 1 KB", LIBRDKAFKA, MB_PER_S, MORE, of_ceiling=0.92),
    Row("requests", "requests of one record, pipelined", RAW, THOUSANDS, MORE, of_ceiling=0.6),
    Row("round_trips", "round trips of one record, one connection", RAW, THOUSANDS, MORE, of_ceiling=0.75),
    *_latency("latency", "produce latency at 1,000/s", RAW),
    *_latency("end_to_end", "end to end at 1,000/s", RAW),
    *_latency("neighbour", "produce latency beside a neighbour at full speed", f"{RAW}, the other 16 KB requests"),
    Row("neighbour_rate", "what that neighbour writes", RAW, MB_PER_S, MORE, of_kafka=None),
    *_latency("bulk", "produce latency beside bulk writes", f"{RAW}, the other {LIBRDKAFKA}, 1 KB"),
    Row("bulk_rate", "what those are", LIBRDKAFKA, MB_PER_S, MORE, of_kafka=None),
    Row("cpu", "CPU of the server for 2 GB in and out, 1 KB", LIBRDKAFKA, SECONDS, LESS),
    Row("ready", "ready after start", "raw Metadata request", SECONDS, LESS, limit=0.5),
    Row("ready_kill", "ready after kill -9 while writing", f"{RAW}, then Metadata", SECONDS, LESS, limit=2.0),
    Row("rss_start", "resident memory after start", "none", MB, LESS, limit=60e6),
    Row("rss_load", "resident memory after all of this", "all of the above", MB, LESS, limit=120e6),
    Row("list_topics", "list topics from the command line", "each server's own command", SECONDS, LESS),
    Row("java_produce", "produce, 100 B, acks=1", f"{JAVA} ProducerPerformance", MILLIONS, MORE),
    Row("java_consume", "consume, 100 B", f"{JAVA} ConsumerPerformance", MILLIONS, MORE),
    Row("java_p50", "end to end, one at a time, p50", f"{JAVA} EndToEndLatency", MILLIS, LESS),
    Row("java_p99", "end to end, one at a time, p99", f"{JAVA} EndToEndLatency", MILLIS, LESS),
]
