"""Every metric of a broker, under the names that dashboards for Kafka already query."""

from millstream.metrics.metric import Kind, Metric

BYTES_IN = Metric(
    "kafka_server_brokertopicmetrics_bytesin_total", Kind.COUNTER, "Bytes of records appended.", ("topic",)
)
BYTES_OUT = Metric(
    "kafka_server_brokertopicmetrics_bytesout_total", Kind.COUNTER, "Bytes of records fetched by consumers.", ("topic",)
)
MESSAGES_IN = Metric("kafka_server_brokertopicmetrics_messagesin_total", Kind.COUNTER, "Records appended.", ("topic",))
PRODUCE_REQUESTS = Metric(
    "kafka_server_brokertopicmetrics_totalproducerequests_total", Kind.COUNTER, "Produce requests.", ("topic",)
)
FETCH_REQUESTS = Metric(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total", Kind.COUNTER, "Fetch requests.", ("topic",)
)
FAILED_PRODUCE_REQUESTS = Metric(
    "kafka_server_brokertopicmetrics_failedproducerequests_total", Kind.COUNTER, "Produce requests refused.", ("topic",)
)
FAILED_FETCH_REQUESTS = Metric(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total", Kind.COUNTER, "Fetch requests refused.", ("topic",)
)
REQUEST_TIME_MS = Metric(
    "kafka_network_requestmetrics_totaltimems",
    Kind.SUMMARY,
    "Milliseconds from a request's last byte in to its answer's hand-over.",
    ("request",),
)
CONNECTIONS = Metric("kafka_server_socket_server_metrics_connection_count", Kind.GAUGE, "Open connections.")
LEADER_COUNT = Metric("kafka_server_replicamanager_leadercount", Kind.GAUGE, "Partitions led by this broker.")
PARTITION_COUNT = Metric("kafka_server_replicamanager_partitioncount", Kind.GAUGE, "Partitions on this broker.")
UNDER_REPLICATED_PARTITIONS = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions",
    Kind.GAUGE,
    "Partitions led here with fewer replicas in sync than assigned.",
)
ACTIVE_CONTROLLER_COUNT = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount", Kind.GAUGE, "1 on the controller, 0 elsewhere."
)
OFFLINE_PARTITIONS_COUNT = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount", Kind.GAUGE, "Partitions of the cluster without a leader."
)
PREFERRED_REPLICA_IMBALANCE_COUNT = Metric(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    Kind.GAUGE,
    "Partitions of the cluster that another than their first replica leads.",
)
GLOBAL_TOPIC_COUNT = Metric("kafka_controller_kafkacontroller_globaltopiccount", Kind.GAUGE, "Topics of the cluster.")
GLOBAL_PARTITION_COUNT = Metric(
    "kafka_controller_kafkacontroller_globalpartitioncount", Kind.GAUGE, "Partitions of the cluster."
)
UNDER_MIN_ISR_PARTITION_COUNT = Metric(
    "kafka_server_replicamanager_underminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with fewer replicas in sync than min.insync.replicas asks.",
)
AT_MIN_ISR_PARTITION_COUNT = Metric(
    "kafka_server_replicamanager_atminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with just as many replicas in sync as min.insync.replicas asks.",
)
REASSIGNING_PARTITIONS = Metric(
    "kafka_server_replicamanager_reassigningpartitions", Kind.GAUGE, "Partitions led here that get further replicas."
)
UNDER_MIN_ISR = Metric(
    "kafka_cluster_partition_underminisr",
    Kind.GAUGE,
    "1 where fewer replicas are in sync than min.insync.replicas asks.",
    ("topic", "partition"),
)
AT_MIN_ISR = Metric(
    "kafka_cluster_partition_atminisr",
    Kind.GAUGE,
    "1 where just as many replicas are in sync as min.insync.replicas asks.",
    ("topic", "partition"),
)
LOG_SIZE = Metric("kafka_log_log_size", Kind.GAUGE, "Bytes of a partition's log.", ("topic", "partition"))
BROKERS = Metric("kafka_brokers", Kind.GAUGE, "Brokers of the cluster that are up.")
PARTITION_CURRENT_OFFSET = Metric(
    "kafka_topic_partition_current_offset", Kind.GAUGE, "High watermark of a partition.", ("topic", "partition")
)
PARTITION_OLDEST_OFFSET = Metric(
    "kafka_topic_partition_oldest_offset", Kind.GAUGE, "First offset a partition still has.", ("topic", "partition")
)
PARTITION_IN_SYNC_REPLICA = Metric(
    "kafka_topic_partition_in_sync_replica", Kind.GAUGE, "Replicas of a partition in sync.", ("topic", "partition")
)
PARTITION_UNDER_REPLICATED = Metric(
    "kafka_topic_partition_under_replicated_partition",
    Kind.GAUGE,
    "1 where a partition has fewer replicas in sync than assigned.",
    ("topic", "partition"),
)

#: Everything a broker counts.
METRICS: tuple[Metric, ...] = tuple(found for found in list(globals().values()) if isinstance(found, Metric))
