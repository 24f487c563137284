"""The packets of socket.io and engine.io, in both directions."""

from __future__ import annotations

import json

import pytest

from alula._wire import (
    Decoder,
    OpenPacket,
    Packet,
    PacketType,
    ProtocolError,
    decode_payload,
    encode_packet,
    encode_payload,
    placeholder,
)


def dumps(value, attachments):
    return json.dumps(value, default=lambda data: placeholder(data, attachments))


def decode(*frames, **options):
    decoder = Decoder(json.loads, **options)
    packets = [decoder.decode(frame) for frame in frames]
    assert packets[:-1] == [None] * (len(frames) - 1)
    return packets[-1]


PACKETS = [
    (Packet(PacketType.CONNECT), ["40"]),
    (Packet(PacketType.CONNECT, {"token": "x"}), ['40{"token": "x"}']),
    (Packet(PacketType.CONNECT, namespace="/admin?x=1"), ["40/admin?x=1,"]),
    (Packet(PacketType.DISCONNECT), ["41"]),
    (Packet(PacketType.EVENT, ["find", "people"]), ['42["find", "people"]']),
    (Packet(PacketType.EVENT, ["find"], 12), ['4212["find"]']),
    (Packet(PacketType.EVENT, ["find"], 7, "/admin"), ['42/admin,7["find"]']),
    (Packet(PacketType.ACK, [None, 1], 0), ["430[null, 1]"]),
    (Packet(PacketType.CONNECT_ERROR, {"message": "no"}), ['44{"message": "no"}']),
    (Packet(PacketType.CONNECT_ERROR, "no"), ['44"no"']),
    (
        Packet(PacketType.EVENT, ["a", b"\1", {"b": [b"\2"]}], 3),
        [
            '452-3["a", {"_placeholder": true, "num": 0},'
            ' {"b": [{"_placeholder": true, "num": 1}]}]',
            b"\1",
            b"\2",
        ],
    ),
    (
        Packet(PacketType.ACK, [b""], 3, "/n"),
        ['461-/n,3[{"_placeholder": true, "num": 0}]', b""],
    ),
]


@pytest.mark.parametrize(("packet", "frames"), PACKETS)
def test_a_packet_is_the_same_in_both_directions(packet, frames):
    assert encode_packet(packet, dumps) == frames
    assert decode(*frames) == packet


def test_a_namespace_may_end_the_packet():
    assert decode("40/admin").namespace == "/admin"
    assert decode("40/,").namespace == "/"


def test_one_attachment_may_be_used_twice_and_order_is_by_number():
    text = '452-["a",%s,%s,%s]'
    one, two = '{"_placeholder":true,"num":1}', '{"_placeholder":true,"num":0}'
    assert decode(text % (one, two, one), b"x", b"y").data == ["a", b"y", b"x", b"y"]


def test_placeholders_are_limited_as_attachments_are():
    one = '{"_placeholder":true,"num":0}'
    assert decode(f'451-["a",{",".join([one] * 10)}]', b"x").data == ["a", *[b"x"] * 10]
    with pytest.raises(ProtocolError, match="more placeholders"):
        decode(f'451-["a",{",".join([one] * 11)}]', b"x")


def test_a_decoder_starts_anew_behind_attachments():
    decoder = Decoder(json.loads, max_bytes=3)
    for _ in range(3):
        assert decoder.decode('451-["a",{"_placeholder":true,"num":0}]') is None
        assert decoder.decode(b"123").data == ["a", b"123"]


def test_a_number_is_an_id_up_to_15_digits():
    assert decode(f'42{"9" * 15}["a"]').id == 10**15 - 1
    with pytest.raises(ProtocolError, match="not JSON"):
        decode(f'42{"9" * 16}["a"]')


@pytest.mark.parametrize(
    "frames",
    [
        ["4"],
        ["4hello"],
        ["47[]"],
        ["40[1]"],
        ['41{"a":1}'],
        ["42"],
        ['42{"a":1}'],
        ['42"find"'],
        ["42[]"],
        ["42[null]"],
        ["42[true]"],
        ["42[{}]"],
        ['42["find"'],
        ['42["connect"]'],
        ['42["newListener"]'],
        ["43"],
        ['431{"a":1}'],
        ["44"],
        ["44[1]"],
        ['45x-1["a"]'],
        ['45["a"]'],
        ['450-1["a"]'],
        ['4511-1["a"]'],
        ['45999999999999-1["a"]'],
        [b"\1"],
        ['451-["a",{"_placeholder":true,"num":0}]', '42["find"]'],
        ['451-["a",{"_placeholder":true,"num":1}]', b"\1"],
        ['451-["a",{"_placeholder":true,"num":-1}]', b"\1"],
        ['451-["a",{"_placeholder":true,"num":true}]', b"\1"],
        ['451-["a",{"_placeholder":true,"num":"splice"}]', b"\1"],
        ['451-["a",{"_placeholder":true}]', b"\1"],
    ],
)
def test_what_is_not_a_packet_is_refused(frames):
    with pytest.raises(ProtocolError):
        decode(*frames)


def outcome(take, frame):
    """Return data and number of an event, the text of an error, or None for other packets."""
    try:
        packet = take(frame)
    except ProtocolError as error:
        return str(error)
    if not isinstance(packet, Packet):
        return packet
    is_event = packet.type is PacketType.EVENT and packet.namespace == "/"
    return (packet.data, packet.id) if is_event else None


EVENT_HEADS = ["42", "421", "4207", "42123456789012345"]
OTHER_HEADS = ["", "4", "41", "43", "45", "45-", "42" + "1" * 16, "42/,", "42/a,1"]
STRANGE_HEADS = ["42-1", "42+1", "42 1", "421_0", "42\N{SUPERSCRIPT TWO}", "42\u0663"]
LISTS = ["[", "[]", "[1]", '["a"]', '["a",{"b":[1]}]', '["connect"]', "[true]", "[null]", "[]]"]
OTHER_DATA = ["", '"["', "{}", "2", "-1"]


@pytest.mark.parametrize("head", [*EVENT_HEADS, *OTHER_HEADS, *STRANGE_HEADS])
@pytest.mark.parametrize("body", [*LISTS, *OTHER_DATA])
def test_an_event_is_the_same_by_the_short_way(head, body):
    frame = head + body
    short = outcome(Decoder(json.loads).decode_event, frame)
    whole = outcome(Decoder(json.loads).decode, frame)
    assert short in (None, whole)
    if head in EVENT_HEADS and body in LISTS:
        assert short is not None


def test_the_short_way_takes_no_binary_data_and_nothing_in_its_place():
    decoder = Decoder(json.loads)
    assert decoder.decode_event(b"\1") is None
    assert decoder.decode('451-["a",{"_placeholder":true,"num":0}]') is None
    assert decoder.decode_event('42["find"]') is None
    assert decoder.decode(b"\1") == Packet(PacketType.EVENT, ["a", b"\1"])
    assert decoder.decode_event('42["find"]') == (["find"], None)


def test_attachments_are_limited():
    with pytest.raises(ProtocolError, match="over 3 bytes"):
        decode('452-["a"]', b"12", b"34", max_bytes=3)
    with pytest.raises(ProtocolError, match="2 attachments, not 1-1"):
        decode('452-["a"]', max_attachments=1)


def test_a_number_may_be_the_name_of_an_event():
    assert decode("421[5]").data == [5]


def test_a_payload_is_the_same_in_both_directions():
    frames = ["40", '42["é"]', b"\1\2\3", "2"]
    body = encode_payload(frames)
    assert body == '40\x1e42["é"]\x1ebAQID\x1e2'.encode()
    assert decode_payload(body) == frames


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "empty packet"),
        (b"2\x1e", "empty packet"),
        (b"bA", "not base64"),
        (b"b!!!!", "not base64"),
        ("bé".encode(), "not base64"),
        (b"4\xff", "not UTF-8"),
        (b"2\x1e2\x1e2", "more than 2 packets"),
    ],
)
def test_a_broken_payload_is_refused(body, text):
    with pytest.raises(ProtocolError, match=text):
        decode_payload(body, max_packets=2)


def test_an_open_packet_is_the_same_in_both_directions():
    packet = OpenPacket("abc", ("websocket",), 25.0, 0.4, 1000)
    frame = packet.encode(dumps)
    assert json.loads(frame[1:]) == {
        "sid": "abc",
        "upgrades": ["websocket"],
        "pingInterval": 25000,
        "pingTimeout": 400,
        "maxPayload": 1000,
    }
    assert OpenPacket.decode(frame, json.loads) == packet


@pytest.mark.parametrize(
    "frame", [b"0", "40", "0", "0[]", "0{}", '0{"sid":"a","pingInterval":"x","pingTimeout":1}']
)
def test_another_first_packet_is_refused(frame):
    with pytest.raises(ProtocolError):
        OpenPacket.decode(frame, json.loads)
