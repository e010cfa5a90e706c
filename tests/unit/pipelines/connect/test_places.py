"""Where sources are, as checkpoints and the topic of offsets keep it."""

from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.places import document_of, key_of, moved, places_of, value_of

A: Place = {"partition": {"filename": "a", "zone": "é"}, "offset": {"position": 3}}
B: Place = {"partition": {"filename": "b"}, "offset": {"position": 7}}


def test_places_survive_a_document_whatever_their_order() -> None:
    document = document_of([B, A])
    assert list(document) == list(document_of([A, B]))
    assert sorted(places_of(document), key=str) == sorted([A, B], key=str)


def test_a_partition_has_one_text_however_its_names_are_ordered() -> None:
    turned: Place = {"partition": {"zone": "é", "filename": "a"}, "offset": {"position": 3}}
    assert document_of([turned]) == document_of([A])
    assert key_of("c", turned["partition"]) == key_of("c", A["partition"])


def test_a_place_before_the_beginning_is_not_named() -> None:
    assert document_of([{"partition": {"filename": "a"}, "offset": None}]) == {}


def test_what_moved_is_what_is_new_or_another() -> None:
    later: Place = {"partition": {"filename": "b"}, "offset": {"position": 9}}
    assert moved(document_of([A, B]), document_of([A, later])) == [later]
    assert moved({}, document_of([B])) == [B]
    assert moved(document_of([B]), document_of([B])) == []


def test_the_topic_of_offsets_is_written_as_connect_writes_it() -> None:
    assert key_of("local-file", {"filename": "test.txt"}) == b'["local-file",{"filename":"test.txt"}]'
    assert value_of({"position": 12}) == b'{"position":12}'
    assert value_of(None) is None
