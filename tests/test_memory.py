"""The state file: saved state comes back the same, and doubtful state never counts as of this boot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import __version__, state_file
from nodeprep.agent_state import AgentState, Case, NodeState, PassStreak
from nodeprep.codec import CodecError
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import NAME, Store
from nodeprep.model import Remedy
from nodeprep.values import Value, field_names, replace

WORDS = st.text(max_size=20)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | SECONDS | WORDS,
    lambda inner: st.lists(inner, max_size=2).map(tuple) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {float: SECONDS, str: WORDS, Any: PLAIN}


def drawn(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that an annotation allows and JSON can hold."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Value):
        hints = get_type_hints(hint)
        return st.builds(cast("type[Any]", hint), **{name: drawn(hints[name]) for name in field_names(hint)})
    if origin in (Union, UnionType):
        return st.one_of(*map(drawn, args))
    if origin is tuple and args[1:] == (Ellipsis,):
        return st.lists(drawn(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(drawn, args))
    if origin is Mapping:
        return st.dictionaries(WORDS, drawn(args[1]), max_size=2)
    return st.from_type(hint)


PAST = AgentState(
    boot_id="b-1",
    node_uid="u-1",
    state=NodeState.READY,
    pass_streaks={"port.state": PassStreak(3, 1.0, 40.0, True)},
    cases=(Case("port.rate", "0000:5c:00.0", 1, "mlx5_3/1", "Slow", "slow", remedy=Remedy("link_up", {"a": "b"})),),
    hardware_profiles=("rdma-roce",),
    baseline={"name": "gpu-17", "gates": ("port.*",)},
)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "lib", tmp_path / "run"


def store_in(places: tuple[Path, Path]) -> Store:
    return Store(str(places[0]), str(places[1]))


@given(drawn(AgentState))
def test_any_memory_comes_back_the_same(agent_state: AgentState) -> None:
    assert state_file.loads(state_file.dumps(agent_state)) == agent_state


def test_what_is_kept_is_recalled_with_the_next_serial_and_the_time(places: tuple[Path, Path]) -> None:
    for serial in (1, 2, 3):
        before = clock.now()
        assert state_file.save(store_in(places), replace(PAST, serial=77, at=0.0)) == ""
        recalled = state_file.load(store_in(places))
        assert recalled.agent_state is not None
        assert before <= recalled.agent_state.at <= clock.now()
        assert recalled.agent_state == replace(PAST, serial=serial, at=recalled.agent_state.at)
        assert (recalled.trouble, recalled.rest) == ("", ())


def test_no_memory_is_no_trouble(places: tuple[Path, Path]) -> None:
    recalled = state_file.load(store_in(places))
    assert (recalled.agent_state, recalled.trouble) == (None, "")


def test_a_memory_that_cannot_be_kept_is_said(places: tuple[Path, Path]) -> None:
    for place in places:
        place.write_text("")
    assert state_file.save(store_in(places), PAST).startswith(f"{places[0]}: File exists; {places[1]}: File exists; ")


def document() -> Any:
    return json.loads(state_file.dumps(PAST))


TEXTS: list[tuple[Callable[[Any], object], str]] = [
    (lambda one: one.update(format=2, nodeprep="9.1.0"), "$.format: found 2, wanted format 1; nodeprep 9.1.0, which"),
    (lambda one: one["content"].update(state="Fine"), '$.content.state: found "Fine", wanted one of Bootstrap'),
    (lambda one: one["content"].update(pass_streaks=[]), "$.content.pass_streaks: found a list of 0, wanted"),
    (lambda one: one["content"].update(_="Passed"), '$.content._: found "Passed", wanted AgentState'),
    (lambda one: one.clear(), "$: found an object, wanted an object with format, nodeprep and content"),
]


@pytest.mark.parametrize(("change", "says"), TEXTS, ids=range(len(TEXTS)))
def test_a_memory_of_another_format_or_kind_counts_for_nothing(
    places: tuple[Path, Path], change: Callable[[Any], object], says: str
) -> None:
    given_ = document()
    change(given_)
    with pytest.raises(CodecError):
        state_file.loads(json.dumps(given_))
    store = store_in(places)
    store.save(json.dumps(given_))
    recalled = state_file.load(store)
    assert recalled.agent_state is None
    assert recalled.trouble.startswith(f"{places[0]}/{NAME}: {says}")
    assert recalled.trouble.endswith("; what was remembered does not count, checks have to pass again")


def test_a_rotten_memory_counts_for_nothing(places: tuple[Path, Path]) -> None:
    state_file.save(store_in(places), PAST)
    file = places[0] / NAME
    file.write_bytes(file.read_bytes().replace(b"Ready", b"Fixed"))
    recalled = state_file.load(store_in(places))
    assert recalled.agent_state is None
    assert recalled.trouble == (
        f"{file}: torn or rotten: its checksum is of another content; "
        "what was remembered does not count, checks have to pass again"
    )


BROKEN: list[Callable[[Path], object]] = [
    lambda file: file.write_bytes(file.read_bytes()[:-1]),
    lambda file: file.write_bytes(b""),
    lambda file: file.rename(file.with_name("aside")).with_name(NAME).mkdir(),
    lambda file: Store(str(file.parent), str(file.parent)).save('{"format": 2, "nodeprep": "9.1.0", "content": {}}'),
]


@pytest.mark.parametrize("damage", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("where", [0, 1])
def test_beside_one_that_cannot_be_read_the_other_is_of_no_boot(
    places: tuple[Path, Path], where: int, damage: Callable[[Path], object]
) -> None:
    """The other may be the older one: its state of this boot may have changed since."""
    for place in places:
        state_file.save(Store(str(place), str(place)), PAST)
    damage(places[where] / NAME)
    good = places[1 - where] / NAME
    recalled = state_file.load(store_in(places))
    assert recalled.agent_state is not None
    assert recalled.agent_state == replace(PAST, boot_id="", serial=1, at=recalled.agent_state.at)
    assert recalled.trouble.startswith(f"{places[where]}/{NAME}: ")
    assert recalled.trouble.endswith(f"; what {good} says of this boot does not count, checks have to pass again")


def test_an_older_one_that_cannot_be_understood_spoils_nothing(places: tuple[Path, Path]) -> None:
    """Its serial says that it is the older."""
    Store(str(places[0]), str(places[0])).save("no memory")
    for _ in range(2):
        state_file.save(Store(str(places[1]), str(places[1])), PAST)
    recalled = state_file.load(store_in(places))
    assert recalled.agent_state is not None
    assert (recalled.agent_state.boot_id, recalled.trouble) == ("b-1", "")


def test_what_a_newer_nodeprep_added_is_written_back(places: tuple[Path, Path]) -> None:
    given_ = document()
    given_["content"]["mood"] = {"good": [1, 2]}
    given_["content"]["pass_streaks"]["port.state"]["sure"] = True
    given_["content"]["cases"][0]["odd"] = 7
    store = store_in(places)
    store.save(json.dumps(given_))
    recalled = state_file.load(store)
    assert recalled.agent_state is not None
    # Another case takes the place of the odd one.
    cases = (replace(PAST.cases[0], check="port.mtu"), *PAST.cases)
    assert state_file.save(store, replace(recalled.agent_state, cases=cases), recalled.rest) == ""
    content = json.loads(store.load().kept[0].text)["content"]
    assert content["mood"] == {"good": [1, 2]}
    assert content["pass_streaks"]["port.state"]["sure"] is True
    assert not any("odd" in case for case in content["cases"])
    assert state_file.load(store).rest == recalled.rest


def test_the_memory_names_the_version_that_wrote_it() -> None:
    assert document()["nodeprep"] == __version__
