"""Names that MirrorMaker, its workers and their clients have, and that mean nothing here: taken and left alone."""

#: How those begin that may go on as they like, for what is behind is for a plugin or a client.
_FAMILIES = (
    *("access.control.", "admin.", "config.providers", "config.storage.", "connector.", "consumer.", "dedicated.mode."),
    *("errors.", "exactly.once.", "header.converter", "inter.worker.", "internal.", "key.converter", "listeners"),
    *("metrics.", "offset.flush.", "offset.storage.", "plugin.", "predicates", "producer.", "rest.", "source."),
    *("status.storage.", "sync.topic.acls.", "target.", "topic.creation.", "topic.tracking.", "transaction.boundary"),
    *("transforms", "value.converter", "worker."),
)
_OF_MIRRORS = """
    add.source.alias.to.metrics config.action.reload config.property.filter.class forwarding.admin.class
    group.filter.class metric.names.formats name offset.lag.max tasks.max.enforce topic.filter.class use.defaults.from
"""
_OF_WORKERS = """
    connect.protocol offsets.storage.topic rebalance.timeout.ms response.http.headers.config
    scheduled.rebalance.max.delay.ms task.shutdown.graceful.timeout.ms
"""
_OF_CLIENTS = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    buffer.memory check.crcs client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes isolation.level key.deserializer key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    max.request.size metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retries retry.backoff.max.ms retry.backoff.ms security.protocol security.providers send.buffer.bytes
    session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
    transactional.id value.deserializer value.serializer
"""
_NAMES = frozenset(f"{_OF_MIRRORS} {_OF_WORKERS} {_OF_CLIENTS}".split())


def is_left_alone(name: str) -> bool:
    """Whether a setting, without the cluster or flow before it, is MirrorMaker's and not ours."""
    return name in _NAMES or name.startswith(_FAMILIES)
