"""Produce: a request for one partition, and its answer."""

from struct import Struct, error

from millstream.model.ids import ZERO_UUID
from millstream.protocol.compiler import Decoder, Encoder
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from millstream.protocol.wire import Buffer, encode_compact_string

_new = object.__new__

#: The partition's, the topic's and the message's tags, which follow the records.
_read_tags = Struct(">HB").unpack_from
_NO_TAGS = (0, 0)


def _request(acks: int, timeout_ms: int, name: str, topic_id: bytes, index: int, records: memoryview) -> ProduceRequest:
    """The message, built without ``__init__``: filling slots is all it would do."""
    partition = _new(PartitionProduceData)
    partition.index = index
    partition.records = records
    topic = _new(TopicProduceData)
    topic.name = name
    topic.topic_id = topic_id
    topic.partition_data = [partition]
    message = _new(ProduceRequest)
    message.transactional_id = None
    message.acks = acks
    message.timeout_ms = timeout_ms
    message.topic_data = [topic]
    return message


def produce_request_decoder(version: int, compiled: Decoder) -> Decoder:
    """For requests with one partition and no transaction."""
    if version < 9:
        return _plain_request_decoder(compiled)
    return _named_request_decoder(compiled) if version < 13 else _identified_request_decoder(compiled)


def _plain_request_decoder(compiled: Decoder) -> Decoder:
    head = Struct(">hhiih").unpack_from  # transactional id's length, acks, timeout, topics, name's length
    body = Struct(">iii").unpack_from  # partitions, index, records' length

    def decode(b: Buffer, at: int) -> ProduceRequest:
        try:
            transactional, acks, timeout_ms, topics, length = head(b, at)
            name_at = at + 14
            name_end = name_at + length
            if transactional == -1 and topics == 1 and length > 0:
                partitions, index, size = body(b, name_end)
                start = name_end + 12
                end = start + size
                if partitions == 1 and start <= end <= len(b):
                    view = b if type(b) is memoryview else memoryview(b)
                    name = str(b[name_at:name_end], "utf-8")
                    return _request(acks, timeout_ms, name, ZERO_UUID, index, view[start:end])
        except error:
            pass  # Too short for this shape; it may be another, or none.
        message: ProduceRequest = compiled(b, at)
        return message

    return decode


def _named_request_decoder(compiled: Decoder) -> Decoder:
    head = Struct(">BhiBB").unpack_from  # null transactional id, acks, timeout, topics + 1, name's length + 1
    body = Struct(">BiBB").unpack_from  # partitions + 1, index, two bytes of records' length + 1

    def decode(b: Buffer, at: int) -> ProduceRequest:
        try:
            transactional, acks, timeout_ms, topics, length = head(b, at)
            name_at = at + 9
            name_end = name_at + length - 1
            if transactional == 0 and topics == 2 and 1 < length < 128:
                partitions, index, low, high = body(b, name_end)
                # Records of 127 to 16,382 bytes, the length of which takes two bytes, in front of three empty tags.
                start = name_end + 7
                end = start + (low & 127 | high << 7) - 1
                if partitions == 2 and low > 127 and high < 128 and _read_tags(b, end) == _NO_TAGS:
                    view = b if type(b) is memoryview else memoryview(b)
                    name = str(b[name_at:name_end], "utf-8")
                    return _request(acks, timeout_ms, name, ZERO_UUID, index, view[start:end])
        except error:
            pass
        message: ProduceRequest = compiled(b, at)
        return message

    return decode


def _identified_request_decoder(compiled: Decoder) -> Decoder:
    # Null transactional id, acks, timeout, topics + 1, id, partitions + 1, index, two bytes of records' length + 1.
    shape = Struct(">BhiB16sBiBB").unpack_from

    def decode(b: Buffer, at: int) -> ProduceRequest:
        try:
            transactional, acks, timeout_ms, topics, topic_id, partitions, index, low, high = shape(b, at)
            start = at + 31
            end = start + (low & 127 | high << 7) - 1
            is_single = transactional == 0 and topics == 2 and partitions == 2
            if is_single and low > 127 and high < 128 and _read_tags(b, end) == _NO_TAGS:
                view = b if type(b) is memoryview else memoryview(b)
                return _request(acks, timeout_ms, "", topic_id, index, view[start:end])
        except error:
            pass
        message: ProduceRequest = compiled(b, at)
        return message

    return decode


def produce_response_encoder(version: int, compiled: Encoder) -> Encoder:
    """For answers about one partition that have nothing to explain."""
    # Partitions + 1, index, error, three offsets and times, no errors, no message, tags, throttle, tags.
    body = Struct(">BihqqqBBxxix").pack

    def encode(m: ProduceResponse) -> bytes:
        if len(m.responses) == 1 and len(m.responses[0].partition_responses) == 1 and not m.node_endpoints:
            topic = m.responses[0]
            p = topic.partition_responses[0]
            if version > 12:
                start = b"\2" + topic.topic_id
            else:
                start = b"\2" + encode_compact_string(topic.name)
            if p.error_message is None and p.current_leader is None and not p.record_errors:
                return start + body(
                    2,
                    p.index,
                    p.error_code,
                    p.base_offset,
                    p.log_append_time_ms,
                    p.log_start_offset,
                    1,
                    0,
                    m.throttle_time_ms,
                )
        encoded: bytes = compiled(m)
        return encoded

    return encode
