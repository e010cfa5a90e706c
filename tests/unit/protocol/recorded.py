"""Requests that real clients sent, byte for byte after the frame's length: header and body."""

from pathlib import Path
from typing import NamedTuple


class RecordedFrame(NamedTuple):
    """One request of a client, with the API and version it speaks."""

    client: str
    request: str
    version: int
    frame: bytes


#: librdkafka 2.x through confluent-kafka, kafka-python and aiokafka, each against a broker that speaks all we speak.
RECORDED = [
    RecordedFrame(
        "librdkafka",
        "ApiVersionsRequest",
        3,
        bytes.fromhex(
            "0012000300000001000772646b61666b610017636f6e666c75656e742d6b61666b612d707974686f6e16322e31362e31"
            "2d72646b61666b612d322e31362e3000"
        ),
    ),
    RecordedFrame(
        "librdkafka",
        "MetadataRequest",
        13,
        bytes.fromhex("0003000d00000002000772646b61666b61000200000000000000000000000000000000027400010000"),
    ),
    RecordedFrame(
        "librdkafka",
        "InitProducerIdRequest",
        4,
        bytes.fromhex("0016000400000002000772646b61666b610000ffffffffffffffffffffffffffff00"),
    ),
    RecordedFrame(
        "librdkafka",
        "ProduceRequest",
        10,
        bytes.fromhex(
            "0000000a00000003000772646b61666b610000ffff000075300202740200000000510000000000000000000000440000"
            "000002b9bd70460000000000000000018bcfe568000000018bcfe5680000000000000000050000000000000000000124"
            "000000066b65790a76616c75650202680276000000"
        ),
    ),
    RecordedFrame(
        "librdkafka",
        "FetchRequest",
        16,
        bytes.fromhex(
            "0001001000000002000772646b61666b6100000001f400000001032000000100000000ffffffff023031323334353637"
            "38396162636465660200000000000000000000000000000000ffffffffffffffffffffffff001000000000010100"
        ),
    ),
    RecordedFrame(
        "librdkafka",
        "CreateTopicsRequest",
        4,
        bytes.fromhex("0013000400000003000772646b61666b61000000010002743200000001000100000000000000000000ea6000"),
    ),
    RecordedFrame(
        "librdkafka",
        "DescribeConfigsRequest",
        1,
        bytes.fromhex("0020000100000004000772646b61666b610000000102000174ffffffff01"),
    ),
    RecordedFrame(
        "kafka-python",
        "ApiVersionsRequest",
        4,
        bytes.fromhex(
            "001200040000000100176b61666b612d707974686f6e2d70726f64756365722d31000d6b61666b612d707974686f6e07"
            "332e302e313200"
        ),
    ),
    RecordedFrame(
        "kafka-python",
        "MetadataRequest",
        13,
        bytes.fromhex("0003000d0000000200176b61666b612d707974686f6e2d70726f64756365722d310001010000"),
    ),
    RecordedFrame(
        "kafka-python",
        "InitProducerIdRequest",
        4,
        bytes.fromhex(
            "001600040000000200176b61666b612d707974686f6e2d70726f64756365722d31000000000000ffffffffffffffffffff00"
        ),
    ),
    RecordedFrame(
        "kafka-python",
        "ProduceRequest",
        9,
        bytes.fromhex(
            "000000090000000300176b61666b612d707974686f6e2d70726f64756365722d310000ffff0000753002027402000000"
            "004600000000000000000000003900000000026114e9ec000000000000000001a1dfdb6029000001a1dfdb6029000000"
            "0000000005000000000000000000010e00000001027600000000"
        ),
    ),
    RecordedFrame(
        "kafka-python",
        "FetchRequest",
        12,
        bytes.fromhex(
            "0001000c0000000200136b61666b612d707974686f6e2d332e302e313200ffffffff000001f400000001032000000000"
            "000000000000000202740200000000000000000000000000000000ffffffffffffffffffffffff001000000000010100"
        ),
    ),
    RecordedFrame(
        "aiokafka",
        "ApiVersionsRequest",
        0,
        bytes.fromhex("0012000000000001001361696f6b61666b612d70726f64756365722d31"),
    ),
    RecordedFrame(
        "aiokafka",
        "MetadataRequest",
        5,
        bytes.fromhex("0003000500000002001361696f6b61666b612d70726f64756365722d310000000001"),
    ),
    RecordedFrame(
        "aiokafka",
        "ProduceRequest",
        7,
        bytes.fromhex(
            "0000000700000002001361696f6b61666b612d70726f64756365722d31ffff000100009c400000000100017400000001"
            "0000000000000045000000000000000000000039ffffffff029c1661ec000000000000000001a1dfdb60d2000001a1df"
            "db60d2ffffffffffffffffffff00000000000000010e00000001027600"
        ),
    ),
    RecordedFrame(
        "aiokafka",
        "FetchRequest",
        11,
        bytes.fromhex(
            "0001000b00000002000f61696f6b61666b612d302e31342e30ffffffff000001f400000001032000000000000000ffff"
            "ffff000000010001740000000100000000ffffffff0000000000000000ffffffffffffffff00100000000000000000"
        ),
    ),
]

#: Groups and transactions: the same clients, Java's and its tools, and a broker's own, all against Apache Kafka;
#: kept by ``tests/compatibility/record_coordinators``.
RECORDED += [
    RecordedFrame(client, request, int(version), bytes.fromhex(frame))
    for client, request, version, frame in map(
        str.split, Path(__file__).with_name("coordinators.txt").read_text().splitlines()
    )
]
