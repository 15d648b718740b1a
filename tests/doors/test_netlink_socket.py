from __future__ import annotations

import errno
import socket
import struct
from enum import IntEnum

import pytest

from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.nlsocket import DUMP_ATTEMPTS, Message, Nest, NetlinkSocket, Refused, TableDecoder
from tests.doors.netlink_kernel import kernel, nest, nla, nlmsg, text, u8, u32


class Question(IntEnum):
    ANY = 40
    RTM_GETLINK = 18
    RTM_GETSTATS = 94
    RTM_SETLINK = 19


class Shown(Message):
    nla_map = ((1, "number", "uint32"), (2, "name", "asciiz"), (3, "raw", "cdata"), (4, "inner", "Inner"))

    class Inner(Nest):
        nla_map = ((1, "name", "asciiz"),)


class Ifinfo(Message):
    fields = (("family", "B"), ("pad", "B"), ("type", "H"), ("index", "i"), ("flags", "I"), ("change", "I"))
    nla_map = ((3, "name", "asciiz"),)


def one(body: bytes) -> Shown:
    (message,) = nlsocket.decoded(Shown, [nlmsg(40, body)])
    return message


def test_the_kernel_lists_its_links() -> None:
    with NetlinkSocket(socket.NETLINK_ROUTE) as route:
        names = {said.text("name") for said in route.dump(Question.RTM_GETLINK, Ifinfo, bytes(16))}
    assert names == {name for _, name in socket.if_nameindex()}


def test_a_dump_that_the_kernel_ends_with_an_errno_is_refused() -> None:
    """RTM_GETSTATS without a filter is turned down by the dump itself, so its errno comes where success would."""
    with NetlinkSocket(socket.NETLINK_ROUTE) as route:
        with pytest.raises(Refused, match="RTM_GETSTATS: Invalid argument") as refusal:
            route.dump(Question.RTM_GETSTATS, Shown, bytes(12))
        assert refusal.value.errno == errno.EINVAL
        assert list(route.dump(Question.RTM_GETLINK, Ifinfo, bytes(16))), "the socket is good for the next question"


def test_the_kernel_says_no() -> None:
    body = bytes(4) + struct.pack("=i", (1 << 31) - 1) + bytes(8)
    with NetlinkSocket(socket.NETLINK_ROUTE) as route, pytest.raises(Refused) as refusal:
        route.get(Question.RTM_GETLINK, Ifinfo, body)
    assert refusal.value.errno == errno.ENODEV


def test_every_kind_of_attribute() -> None:
    said = one(u32(1, 7) + text(2, "rail0") + nla(3, b"\x01\x02") + nest(4, text(1, "a"), text(1, "b"), u8(9, 1)))
    assert said.number("number") == 7
    assert said.text("name") == "rail0"
    assert said.octets("raw") == b"\x01\x02"
    assert said.nest("inner").texts("name") == ("a", "b")


def test_what_was_not_said_is_none_or_empty() -> None:
    said = one(u32(99, 7) + nla(0, b"") + nest(98, u8(1, 1)))
    assert (said.number("number"), said.text("name"), said.octets("raw")) == (None, None, None)
    assert said.nest("inner").texts("name") == ()


def test_text_that_is_not_utf8_is_still_text() -> None:
    assert one(nla(2, b"ra\xffil\0")).text("name") == "ra\\xffil"


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("=HH", 3, 1),
        struct.pack("=HH", 0, 1) + bytes(4),
        struct.pack("=HH", 12, 1) + bytes(4),
        struct.pack("=HH", 12, 99) + bytes(4),
        bytes(3),
    ],
)
def test_an_attribute_cut_short_is_no_answer(body: bytes) -> None:
    with pytest.raises(OSError, match="netlink: Shown") as error:
        one(u8(5, 1) + body)
    assert error.value.errno == errno.EBADMSG


def test_a_message_shorter_than_its_fields_is_no_answer() -> None:
    with pytest.raises(OSError, match="Ifinfo cut short: 31 bytes"):
        list(nlsocket.decoded(Ifinfo, [nlmsg(16, bytes(15))]))


def test_a_number_cut_short_is_no_number() -> None:
    with pytest.raises(OSError, match="not a number"):
        one(nla(1, b"")).number("number")


def test_what_is_no_octets_is_not_taken_for_them() -> None:
    with pytest.raises(OSError, match="number is 7, not bytes"):
        one(u32(1, 7)).octets("number")


def test_a_verdict_cut_short_is_none() -> None:
    with pytest.raises(OSError, match="too short for a netlink verdict"):
        nlsocket.verdict(nlmsg(3, b"\0\0"))


def test_datagrams_are_split_at_messages() -> None:
    whole = nlmsg(40, b"12345") + bytes(3) + nlmsg(41, b"")
    assert [(part.kind, part.data[16:]) for part in nlsocket.parts(whole)] == [(40, b"12345"), (41, b"")]


@pytest.mark.parametrize("length", range(1, len(nlmsg(40, u32(1, 7))) * 2))
def test_a_datagram_cut_anywhere_is_whole_messages_or_an_error(length: int) -> None:
    message = nlmsg(40, u32(1, 7))
    cut = (message * 2)[:length]
    if length % len(message) == 0:
        assert len(list(nlsocket.parts(cut))) == length // len(message)
        return
    with pytest.raises(OSError, match="netlink") as error:
        list(nlsocket.parts(cut))
    assert error.value.errno == errno.EBADMSG


def test_a_table_that_changed_is_asked_for_again() -> None:
    with kernel(lambda _kind, _body: [u32(1, 7), u32(1, 8)], interrupted=DUMP_ATTEMPTS - 1) as (asking, played):
        assert [said.number("number") for said in asking.dump(Question.ANY, Shown)] == [7, 8]
    assert len(played.asked) == DUMP_ATTEMPTS


def test_a_table_that_never_rests_is_no_answer() -> None:
    with (
        kernel(lambda _kind, _body: [u32(1, 7)], interrupted=DUMP_ATTEMPTS) as (asking, _),
        pytest.raises(OSError, match="the table changed during each of 3 dumps") as error,
    ):
        asking.dump(Question.ANY, Shown)
    assert error.value.errno == errno.EAGAIN


def test_an_acknowledgement_is_no_answer() -> None:
    with kernel(lambda _kind, _body: []) as (asking, _), pytest.raises(OSError, match="acknowledged, but not answered"):
        asking.get(Question.ANY, Shown)


def test_an_answer_longer_than_the_buffer_is_no_answer() -> None:
    with (
        kernel(lambda _kind, _body: [nla(3, bytes(60000)) + nla(3, bytes(60000))]) as (asking, _),
        pytest.raises(OSError, match="longer than 65536 bytes"),
    ):
        asking.get(Question.ANY, Shown)


def test_a_kernel_that_never_answers_is_not_waited_for_for_ever() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, NetlinkSocket(socket.NETLINK_ROUTE) as asking:
        assert asking._socket.gettimeout() == 5
        asking._socket.close()
        asking._socket = theirs
        theirs.settimeout(0.05)
        with pytest.raises(TimeoutError):
            asking.get(Question.ANY, Shown)


def test_a_message_that_says_the_same_in_the_next_dump_is_not_decoded_again() -> None:
    """The number of the question differs each time. What changed, or had gone meanwhile, is decoded."""
    asked = []

    def name(message: bytes) -> str:
        asked.append(message)
        return nlsocket.decoded_one(Shown, message).text("name") or ""

    table = TableDecoder(name)
    assert table.values([nlmsg(40, text(2, "a"), 1), nlmsg(40, text(2, "b"), 1)]) == ["a", "b"]
    assert table.values([nlmsg(40, text(2, "a"), 2), nlmsg(40, text(2, "c"), 2)]) == ["a", "c"]
    assert len(asked) == 3
    assert table.values([nlmsg(40, text(2, "b"), 3)]) == ["b"]
    assert len(asked) == 4


def test_a_message_that_is_not_valid_is_refused_in_each_dump() -> None:
    table = TableDecoder(lambda message: nlsocket.decoded_one(Shown, message))
    for _ in range(2):
        with pytest.raises(OSError, match="attribute 2 of 99 bytes"):
            table.values([nlmsg(40, struct.pack("=HH", 99, 2))])
