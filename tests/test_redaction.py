"""What looks like a secret in a text, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import redaction

TEXTS = [
    # text                                                      as it is kept
    ("x password=hunter2, y", "x password=***, y"),
    ("Password: hunter2", "Password: ***"),
    ('{"accessKeySecret": "abc", "a": 1}', '{"accessKeySecret": "***", "a": 1}'),
    (r"{\"sts_token\":\"abc\"}", r"{\"sts_token\":\"***\"}"),
    ("Authorization: Bearer abc.def", "Authorization: ***"),
    ("sent bearer abc.def", "sent bearer ***"),
    ("rd.luks.key=abc systemd.x=1", "rd.luks.key=*** systemd.x=1"),
    ("AccessKeyId is LTAI5tAbcdefghijkl", "AccessKeyId is ***"),
    ("of LTAI5tAbcdefghijkl: no", "of ***: no"),
    ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.c2ln b", "a *** b"),
    ("https://u:p@h:1/x?sig=zz&y=1", "https://***@h:1/x?sig=***&y=1"),
    ("CIFS: mount of //u:p@h/share failed", "CIFS: mount of //***@h/share failed"),
    ("the secret is abc", "the secret is ***"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n", "***"),
    ("mount --password hunter2 /x", "mount --password *** /x"),
    ('a1="--password" a2="hunter2"', 'a1="--password" a2="***"'),
    ("wpa psk=hunter2", "wpa psk=***"),
    ("passcode=hunter2", "passcode=***"),
    ("x?password%3Dhunter2&y", "x?password%3D***&y"),
    ("ceph: AQBabcdefghijklmnopqrstuvwxyz0123456789ab==", "ceph: ***"),
    ("dhchap DHHC-1:00:abcdef+/=: bad", "dhchap ***: bad"),
    ("clone ghp_abcdefghijklmnopqrstuv", "clone ***"),
    # what devices say has none
    *(
        (text, text)
        for text in (
            "mlx5_core 0000:5d:00.0: firmware version: 28.39.1002",
            "mlx5_core 0000:5d:00.0: Port module event: module 0, Cable unplugged",
            "sd 0:0:0:0: sense key: Medium Error, mkey=0x1234 lkey=0x7",
            "NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 1 timed out",
            "pcieport 0000:5c:01.0: AER: Uncorrected (Fatal) error received: 0000:5d:00.0",
            "InvalidVSwitchId.NotFound: vsw-bp1 does not exist",
            "Error: ipvlan is unsupported",
            "https://h:6443/api?watch=1",
        )
    ),
]
SOURCES = [
    # what is mounted                what of it is kept
    ("//u:p@h/s", "//h/s"),
    ("//u:p/q@h/s", "//h/s"),
    ("//h/s", "//h/s"),
    ("u@h:/x", "h:/x"),
    ("u:p@h:/x", "h:/x"),
    ("u@h:", "h:"),
    ("h:/vol/@snapshot", "h:/vol/@snapshot"),
    ("[fd00::1]:/x", "[fd00::1]:/x"),
    ("https://u:p@h/dav?token=1#x", "https://h/dav"),
    ("https://h/dav?token=a@b", "https://b"),
    ("redis://:p@h/1", "redis://h/1"),
    ("10.0.0.1:6789,10.0.0.2:6789:/", "10.0.0.1:6789,10.0.0.2:6789:/"),
    ("admin@fsid.name=/", "fsid.name=/"),
    ("10.0.0.1@o2ib,10.0.0.2@tcp1:mds@o2ib:/lustre", "10.0.0.1@o2ib,10.0.0.2@tcp1:mds@o2ib:/lustre"),
    ("/dev/disk/by-id/a@b", "/dev/disk/by-id/a@b"),
    ("h:/share?token=X", "h:/share"),
    ("s3fs#bucket,passwd=X", "s3fs"),
    ("dev#token=X", "dev"),
    ("https://h/dav;auth=X", "https://h/dav;auth=***"),
    ("rclone:s3,secret_access_key=X:bucket", "rclone:s3,secret_access_key=***"),
    (":s3,secret_access_key='X':bucket", ":s3,secret_access_key='***':bucket"),
    ("oss://bucket/AccessKeySecret=X", "oss://bucket/AccessKeySecret=***"),
    ("admin@fsid.fs=/,secret=X", "fsid.fs=/,secret=***"),
    ("tmpfs", "tmpfs"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "kept"), TEXTS)
def test_texts(text: str, kept: str) -> None:
    assert redaction.masked(text) == kept


@pytest.mark.parametrize(("source", "kept"), SOURCES)
def test_sources_of_mounts(source: str, kept: str) -> None:
    assert redaction.without_userinfo(source) == kept


SCHEMES = st.sampled_from(["//", "https://", "ftp://", "s3://", "redis://"])
PASSWORDS = st.text(st.characters(codec="ascii", exclude_characters="\n", min_codepoint=33), min_size=1)


@given(SCHEMES, PASSWORDS)
def test_no_password_of_a_url_is_kept_whatever_is_in_it(scheme: str, password: str) -> None:
    secret = f"S3CRET{password}S3CRET"
    assert "S3CRET" not in redaction.without_userinfo(f"{scheme}user:{secret}@host/share")
