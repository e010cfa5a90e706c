"""Fetch: a consumer's request for one partition, and its answer."""

from struct import Struct, error
from typing import Any

from millstream.model.ids import ZERO_UUID
from millstream.protocol.compiler import Decoder, Encoder
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from millstream.protocol.types import INT64_MAX
from millstream.protocol.wire import Buffer, encode_uvarint

_new = object.__new__


def _request(
    start: tuple[int, int, int, int, int, int, int], topic: FetchTopic, partition: FetchPartition, rack_id: str
) -> FetchRequest:
    """The message around one partition, built without ``__init__``."""
    partition.replica_directory_id = ZERO_UUID
    partition.high_watermark = INT64_MAX
    topic.partitions = [partition]
    m = _new(FetchRequest)
    m.replica_id, m.max_wait_ms, m.min_bytes, m.max_bytes, m.isolation_level, m.session_id, m.session_epoch = start
    m.cluster_id = None
    m.replica_state = None
    m.topics = [topic]
    m.forgotten_topics_data = []
    m.rack_id = rack_id
    return m


def fetch_request_decoder(version: int, compiled: Decoder) -> Decoder:
    """For requests of one partition with no tagged fields, as consumers send them."""
    if version == 11:
        return _plain_request_decoder(compiled)
    return _named_request_decoder(compiled) if version == 12 else _identified_request_decoder(version, compiled)


def _plain_request_decoder(compiled: Decoder) -> Decoder:
    head = Struct(">iiiibiiih").unpack_from  # seven fields, topics, name's length
    body = Struct(">iiiqqiih").unpack_from  # partitions, five fields, forgotten topics, rack's length

    def decode(b: Buffer, at: int) -> FetchRequest:
        try:
            *start, topics, length = head(b, at)
            name_at = at + 31
            name_end = name_at + length
            if topics == 1 and length > 0:
                p = _new(FetchPartition)
                (
                    partitions,
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.log_start_offset,
                    p.partition_max_bytes,
                    forgotten,
                    rack,
                ) = body(b, name_end)
                if partitions == 1 and forgotten == 0 and rack == 0:
                    p.last_fetched_epoch = -1
                    topic = _new(FetchTopic)
                    topic.topic = str(b[name_at:name_end], "utf-8")
                    topic.topic_id = ZERO_UUID
                    return _request(start, topic, p, "")  # type: ignore[arg-type]
        except (error, IndexError):
            pass  # Too short for this shape; it may be another, or none.
        message: FetchRequest = compiled(b, at)
        return message

    return decode


#: Partitions + 1, six fields, its tags, the topic's, forgotten topics + 1, rack's length + 1.
_FLEXIBLE_BODY = "BiiqiqiBBBB"


def _named_request_decoder(compiled: Decoder) -> Decoder:
    head = Struct(">iiiibiiBB").unpack_from  # seven fields, topics + 1, name's length + 1
    body = Struct(">" + _FLEXIBLE_BODY).unpack_from

    def decode(b: Buffer, at: int) -> FetchRequest:
        try:
            *start, topics, length = head(b, at)
            name_at = at + 27
            name_end = name_at + length - 1
            if topics == 2 and 1 < length < 128:
                p = _new(FetchPartition)
                (
                    partitions,
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                    tags,
                    topic_tags,
                    forgotten,
                    rack,
                ) = body(b, name_end)
                # Rack and the message's own tags are the last two bytes, or this is another shape.
                is_single = partitions == 2 and tags == 0 and topic_tags == 0 and forgotten == 1 and rack == 1
                if is_single and b[name_end + 37] == 0:
                    topic = _new(FetchTopic)
                    topic.topic = str(b[name_at:name_end], "utf-8")
                    topic.topic_id = ZERO_UUID
                    return _request(start, topic, p, "")  # type: ignore[arg-type]
        except (error, IndexError):
            pass
        message: FetchRequest = compiled(b, at)
        return message

    return decode


def _identified_request_decoder(version: int, compiled: Decoder) -> Decoder:
    has_replica_id = version < 15
    shape = Struct((">iiiibii" if has_replica_id else ">iiibii") + "B16s" + _FLEXIBLE_BODY)
    read, size = shape.unpack_from, shape.size

    def decode(b: Buffer, at: int) -> FetchRequest:
        try:
            p = _new(FetchPartition)
            topic = _new(FetchTopic)
            (
                *start,
                topics,
                topic.topic_id,
                partitions,
                p.partition,
                p.current_leader_epoch,
                p.fetch_offset,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.partition_max_bytes,
                tags,
                topic_tags,
                forgotten,
                rack,
            ) = read(b, at)
            is_single = topics == 2 and partitions == 2 and tags == 0 and topic_tags == 0 and forgotten == 1
            if is_single and rack == 1 and b[at + size] == 0:
                topic.topic = ""
                if not has_replica_id:
                    start.insert(0, -1)
                return _request(start, topic, p, "")  # type: ignore[arg-type]
        except (error, IndexError):
            pass
        message: FetchRequest = compiled(b, at)
        return message

    return decode


def fetch_response_encoder(version: int, compiled: Encoder) -> Encoder:
    """For answers with one partition, whatever lies in its records."""
    is_named = version == 12
    head = Struct(">ihiBB" if is_named else ">ihiB16sBihqqqBi").pack  # throttle, error, session, topics + 1, …
    body = Struct(">BihqqqBi").pack  # partitions + 1, five fields, aborted transactions + 1, preferred replica

    def encode(m: FetchResponse) -> list[Any]:
        if len(m.responses) != 1 or len(m.responses[0].partitions) != 1 or m.node_endpoints:
            return compiled(m)  # type: ignore[no-any-return]
        topic = m.responses[0]
        p = topic.partitions[0]
        records = p.records
        is_tagged = p.current_leader is not None or p.diverging_epoch is not None or p.snapshot_id is not None
        if is_tagged or not records or p.aborted_transactions:
            return compiled(m)  # type: ignore[no-any-return]
        aborted = 0 if p.aborted_transactions is None else 1
        if is_named:
            name = topic.topic.encode()
            if len(name) > 126:
                return compiled(m)  # type: ignore[no-any-return]
            start = head(m.throttle_time_ms, m.error_code, m.session_id, 2, len(name) + 1) + name
            start += body(
                2,
                p.partition_index,
                p.error_code,
                p.high_watermark,
                p.last_stable_offset,
                p.log_start_offset,
                aborted,
                p.preferred_read_replica,
            )
        else:
            start = head(
                m.throttle_time_ms,
                m.error_code,
                m.session_id,
                2,
                topic.topic_id,
                2,
                p.partition_index,
                p.error_code,
                p.high_watermark,
                p.last_stable_offset,
                p.log_start_offset,
                aborted,
                p.preferred_read_replica,
            )
        return [start + encode_uvarint(len(records) + 1), records, b"\0\0\0"]

    return encode
