"""What people type to name problems."""

from __future__ import annotations

import pytest

from kernelbench_bridge import BridgeError, format_ids, parse_ids
from kernelbench_bridge.selection import parse_uid


@pytest.mark.parametrize(("text", "ids"), [
    ("7", (7,)), ("1-3,23", (1, 2, 3, 23)), (" 5 , 2-3 ", (2, 3, 5)), ("4,4,3-5", (3, 4, 5)), ("9-9", (9,)),
])
def test_parse_ids(text, ids):
    assert parse_ids(text) == ids


@pytest.mark.parametrize(("text", "says"), [
    ("", "'' in '' is no problem id"), ("1,,2", "no problem id"), ("a", "'a' in 'a'"), ("-3", "'-3'"), ("1-", "'1-'"), ("1.5", "'1.5'"),
    ("5-2", "runs backwards; use 2-5"), ("0-4", "between 1 and 100000"), ("1-999999999", "between 1 and 100000"),
    ("1-99999999999999999999", "no problem id"), ("\u0663", "no problem id"),
])
def test_parse_ids_says_what_is_wrong(text, says):
    with pytest.raises(BridgeError) as caught:
        parse_ids(text)
    assert says in caught.value.message
    assert caught.value.exit_code == 2


def test_format_ids_is_the_way_back():
    assert format_ids([3, 1, 2, 7, 10, 9, 7]) == "1-3,7,9-10"
    assert parse_ids(format_ids(range(4, 90))) == tuple(range(4, 90))
    assert format_ids([]) == "none"


@pytest.mark.parametrize(("text", "position"), [
    ("L1/19", (1, 19)), ("l3/7", (3, 7)), ("1/19", None), ("L1", None), ("L1/x", None), ("L1/19.py", None), ("a/L1/19", None),
])
def test_parse_uid(text, position):
    assert parse_uid(text) == position
