"""The table of printk formats: what is taken from sources, and that what is shipped comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs import printk_table
from tests.rigs.printk_table import Decision, Format

SOURCE = r"""
#define DRV_NAME "efa"
#define efa_warn(dev, format, arg...) dev_warn(dev, "never " format, ##arg)
/* dev_err(dev, "in a comment\n"); */
static void one(struct device *dev)
{
    dev_err(dev, "a plain one: %d\n", x);
    dev_warn_ratelimited(dev, "in two "
        "pieces\n");
    netdev_info(ndev, DRV_NAME ": with a name");
    pr_err("no device, (parentheses), \"quotes\"\n");
    ibdev_err_ratelimited(&dev->ibdev, "of ibdev %u\n", f(a, "b"));
    dev_printk(KERN_NOTICE, dev, "a notice\n");
    printk(KERN_WARNING "a level in the format\n");
    printk(KERN_DEBUG "never: debug\n");
    netif_warn(priv, hw, ndev, "fourth argument %s\n", up ? "up" : "down");
    dev_err(dev, bad ? "either" : "or");
    dev_err_probe(dev, err, "third argument\n");
    WARN_ONCE(1, "a warning with a stack\n");
    dev_dbg(dev, "never: debug\n");
    dev_err(dev, text);
    dev_info(dev, "a line\nand the next one\n");
}
"""
FOUND = [
    ("2", ()),
    ("3", ("a plain one: %d", "either", "no device, (parentheses), \"quotes\"", "of ibdev %u", "or", "third argument")),
    ("4", ("a level in the format", "a warning with a stack", "fourth argument %s", "in two pieces")),
    ("5", ("a notice",)),
    ("6", ("a line", "efa: with a name")),
]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for places in printk_table.DRIVERS.values():
        for place in places:
            one = tmp_path / place
            (one.parent if one.suffix else one).mkdir(parents=True, exist_ok=True)
            if one.suffix:
                one.write_text("")
    (tmp_path / "drivers/infiniband/hw/efa/efa_main.c").write_text(SOURCE)
    (tmp_path / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nEXTRAVERSION =\n")
    return tmp_path


def test_formats_are_taken_from_sources(source: Path) -> None:
    formats, variable = printk_table.extracted(source)
    for level, texts in FOUND:
        assert tuple(one.format for one in formats if one.level == level) == texts
    assert {(one.driver, one.file) for one in formats} == {("efa", "drivers/infiniband/hw/efa/efa_main.c")}
    assert variable == 1
    assert printk_table.version(source) == "6.1.192"
    assert printk_table.extracted(source) == (formats, variable)


SAID = [Format("efa", "3", "synd 0x%x: %s", "a.c"), Format("efa", "6", "IB device registered", "b.c")]


def test_classes_are_added_by_hand() -> None:
    decided = [
        Decision("efa", "GONE", "synd 0x%x: dead", ""),
        Decision("efa", "HOT", "too hot for %d s", "Linux master: c.c"),
    ]
    assert printk_table.table(SAID, decided) == [
        ("efa", "3", "-", "synd 0x%x: %s", "a.c"),
        ("efa", "3", "GONE", "synd 0x%x: dead", "a.c: synd 0x%x: %s"),
        ("efa", "6", "NOTHING", "IB device registered", "b.c"),
        ("efa", "?", "HOT", "too hot for %d s", "Linux master: c.c"),
    ]


def test_a_format_that_nobody_says_is_refused() -> None:
    with pytest.raises(ValueError, match="never says 'invented'"):
        printk_table.table(SAID, [Decision("efa", "GONE", "invented", "")])


def test_two_classes_of_one_format_are_refused() -> None:
    rows = [printk_table.Row(one, "3", kind, "it is what it is", "a.c") for one, kind in (("a", "HOT"), ("b", "GONE"))]
    with pytest.raises(ValueError, match="is HOT and GONE"):
        printk_table.shipped(rows)


def test_what_is_shipped_is_made_of_the_table() -> None:
    assert printk_table.SHIPPED.read_text() == printk_table.shipped(printk_table.rows_written())


def test_the_table_has_the_classes_that_were_decided() -> None:
    rows = printk_table.rows_written()
    own = [
        Format(row.driver, row.level, row.format, row.source)
        for row in rows
        if row.level != "?" and ": " not in row.source
    ]
    assert printk_table.table(own, printk_table.decisions()) == rows
    drivers = {row.driver for row in rows}
    assert drivers == set(printk_table.DRIVERS)
