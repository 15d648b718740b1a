from __future__ import annotations

import errno
import struct

import pytest

from nodeprep.doors.netlink import dcbnl, nlsocket
from nodeprep.doors.netlink.dcbnl import App, Dcb, DcbMessage, Ets
from tests.doors.netlink_kernel import nest, nla, nlmsg, text, u8

RTM_GETDCB, DCB_CMD_IEEE_GET = 78, 21
# include/uapi/linux/dcbnl.h
IFNAME, IEEE, DCBX = 1, 13, 14
ETS, PFC, APP_TABLE, MAXRATE = 1, 2, 3, 7
APP, PCP_APP = 1, 2

# struct ieee_ets: willing, ets_cap, cbs, then tc_tx_bw, tc_rx_bw, tc_tsa, prio_tc, and the three recommended ones
TX, RX = (50, 0, 0, 50, 0, 0, 0, 0), (9, 9, 9, 9, 9, 9, 9, 9)
TSA, PRIO_TC = (2, 0, 0, 2, 1, 255, 0, 7), (0, 0, 0, 3, 0, 5, 0, 0)
IEEE_ETS = struct.pack("=3B56B", 1, 8, 0, *TX, *RX, *TSA, *PRIO_TC, *(7,) * 24)
# struct ieee_pfc: pfc_cap, pfc_en, mbc, delay, requests[8], indications[8]
IEEE_PFC = struct.pack("@BBBH8Q8Q", 2, 0b00001000, 0, 0, *range(16))


def app(selector: int, protocol: int, priority: int) -> bytes:
    return struct.pack("=BBH", selector, priority, protocol)


def decode(*attributes: bytes) -> Dcb:
    body = struct.pack("=BBH", 0, DCB_CMD_IEEE_GET, 0) + text(IFNAME, "rail0") + b"".join(attributes)
    (message,) = nlsocket.decoded(DcbMessage, [nlmsg(RTM_GETDCB, body)])
    return dcbnl.settings(message)


def test_a_netdev_set_up_for_roce() -> None:
    table = nest(
        APP_TABLE, nla(APP, app(5, 26, 3)), nla(APP, app(1, 0x8915, 3)), nla(PCP_APP, app(255, 3, 3)), u8(77, 1)
    )
    said = decode(nest(IEEE, nla(ETS, IEEE_ETS), nla(PFC, IEEE_PFC), nla(MAXRATE, bytes(64)), table), u8(DCBX, 0x09))
    assert said == Dcb(
        dcbx=("host", "ieee"),
        pfc=0b00001000,
        ets=Ets(True, PRIO_TC, ("ets", "strict", "strict", "ets", "credit-based", "vendor", "strict", "7"), TX),
        apps=(App("dscp", 26, 3), App("ethertype", 0x8915, 3), App("pcp", 3, 3)),
    )


def test_a_driver_that_offers_nothing_of_it() -> None:
    assert decode(nest(IEEE)) == Dcb(dcbx=None, pfc=None, ets=None, apps=())


def test_a_selector_of_a_newer_kernel_is_its_number() -> None:
    assert decode(nest(IEEE, nest(APP_TABLE, nla(APP, app(9, 1, 2))))).apps == (App("9", 1, 2),)


def test_a_structure_that_grew_is_read_as_far_as_it_is_known() -> None:
    assert decode(nest(IEEE, nla(PFC, IEEE_PFC + bytes(8)))).pfc == 0b00001000


@pytest.mark.parametrize(
    ("kind", "layout"), [(ETS, IEEE_ETS[:34]), (PFC, IEEE_PFC[:1]), (APP_TABLE, nla(APP, app(5, 26, 3)[:3]))]
)
def test_a_structure_cut_short_is_no_answer(kind: int, layout: bytes) -> None:
    with pytest.raises(OSError, match="bytes of DCB") as error:
        decode(nest(IEEE, nla(kind, layout)))
    assert error.value.errno == errno.EBADMSG


def test_a_driver_without_dcb() -> None:
    """The loopback has none, on any kernel."""
    assert dcbnl.dcb("lo") is None


def test_a_netdev_that_is_not_there() -> None:
    with pytest.raises(OSError, match="RTM_GETDCB: No such device") as error:
        dcbnl.dcb("no-such-netdev")
    assert error.value.errno == errno.ENODEV


def test_a_name_that_no_netdev_can_have() -> None:
    with pytest.raises(OSError, match="RTM_GETDCB"):
        dcbnl.dcb("a-name-of-more-than-fifteen-bytes")
