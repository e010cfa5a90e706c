"""Whose a directory and a folder is."""

import pytest

from millstream.storage.meta import (
    DamagedMeta,
    MetaProperties,
    decode_partition_metadata,
    encode_partition_metadata,
)

META = MetaProperties(3, "4L6g3nShT-eMCtK--X86sw", bytes(range(16)))


@pytest.mark.parametrize("meta", [META, META._replace(is_shared=True), META._replace(directory_id=None)])
def test_meta_properties_survive(meta: MetaProperties) -> None:
    assert MetaProperties.decode(meta.encode()) == meta


def test_meta_properties_of_apache_kafka_are_read() -> None:
    data = (
        b"#\n#Sat Nov 15 15:00:00 UTC 2025\nnode.id=1\nversion=1\ncluster.id=abc\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
    )
    assert MetaProperties.decode(data) == MetaProperties(1, "abc", bytes(range(16)))
    assert MetaProperties.decode(b"broker.id=0\nversion=0\ncluster.id=abc\n") == MetaProperties(0, "abc")


@pytest.mark.parametrize("data", [b"", b"broker.id=x\ncluster.id=a\n", b"broker.id=1\n", b"\xff", b"broker.id\n"])
def test_damaged_meta_properties_are_noticed(data: bytes) -> None:
    with pytest.raises(DamagedMeta):
        MetaProperties.decode(data)


def test_a_partition_s_topic_id_is_written_as_kafka_does() -> None:
    data = encode_partition_metadata(bytes(range(16)))
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert decode_partition_metadata(data + b"\n") == bytes(range(16))


@pytest.mark.parametrize("data", [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: AA"])
def test_damaged_partition_metadata_is_noticed(data: bytes) -> None:
    with pytest.raises(DamagedMeta):
        decode_partition_metadata(data)
