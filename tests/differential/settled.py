"""The permitted differences between Redis 7.0 and this region, and their reasons.

Both replies to a command go through `settle`, which removes the parts that cannot or need not be
equal. The rest is compared byte for byte. The permitted differences are:

- **times**: idle times and similar values count as equal if they are near;
- **lag** and `entries-read`: this region gives a number where Redis gives null (S15);
- **fields that Redis 7.0 does not have**: `inactive` in XINFO CONSUMERS (7.2), `active-time` in
  FULL (7.2), the `idmp-…`, `pids-…` and `iids-…` fields of XINFO STREAM (8.6);
- **the sizes of the radix tree**, which are not part of any contract;
- **the order of pairs** in the reply to CONFIG GET.
"""

from __future__ import annotations

from tests.differential.replies import Typed

NEAR_MS = 3000
_NEWER_FIELDS = {
    b"idmp-duration",
    b"idmp-maxsize",
    b"pids-tracked",
    b"iids-tracked",
    b"iids-added",
    b"iids-duplicates",
}
_NEWER_FIELDS |= {b"inactive", b"active-time"}
_INNER_FIELDS = {b"radix-tree-keys", b"radix-tree-nodes"}
_TIME_FIELDS = {b"idle", b"seen-time"}


def settle(words: list[bytes], theirs: Typed, own: Typed) -> tuple[Typed, Typed]:
    """Both replies without the permitted differences. The results must be equal."""
    name = words[0].upper()
    if name == b"XINFO":
        return _information(theirs), _line_up(_information(theirs), _information(own))
    if name == b"XPENDING" and len(words) > 3:
        return theirs, _near(theirs, own, 2)
    if name in (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"):
        return theirs, _near_number(theirs, own)
    if name == b"CONFIG" and len(words) > 2 and words[1].upper() == b"GET":
        return _sorted_pairs(theirs), _sorted_pairs(own)
    return theirs, own


def _sorted_pairs(reply: Typed) -> Typed:
    """A map with its pairs in sorted order, for a reply whose order is not part of any contract."""
    pairs = sorted(
        (reply.elements[index : index + 2] for index in range(0, len(reply.elements), 2)), key=repr
    )
    return Typed(reply.kind, [one for pair in pairs for one in pair])


def _near_number(theirs: Typed, own: Typed) -> Typed:
    """Our reply, replaced by theirs if both are numbers at most NEAR_MS apart and not negative."""
    if (
        isinstance(theirs.value, int)
        and isinstance(own.value, int)
        and theirs.kind == own.kind
        and theirs.value >= 0 <= own.value
    ):
        if abs(theirs.value - own.value) <= NEAR_MS:
            return theirs
    return own


def _near(theirs: Typed, own: Typed, index: int) -> Typed:
    """Our reply, with element `index` of every row replaced by theirs where the two are near."""
    if len(theirs.elements) != len(own.elements) or not own.elements:
        return own
    rows = []
    for their_row, own_row in zip(theirs.elements, own.elements, strict=True):
        elements = list(own_row.elements)
        if len(elements) > index and len(their_row.elements) > index:
            elements[index] = _near_number(their_row.elements[index], elements[index])
        rows.append(Typed(own_row.kind, elements) if own_row.elements else own_row)
    return Typed(own.kind, rows)


def _is_map(reply: Typed) -> bool:
    """Whether an XINFO reply is a map, or the flat array of names and values that RESP2 uses."""
    elements = reply.elements
    if reply.kind == "%":
        return True
    return (
        reply.kind == "*"
        and len(elements) >= 4
        and len(elements) % 2 == 0
        and elements[0].value in (b"length", b"name")
    )


def _information(reply: Typed) -> Typed:
    """An XINFO reply without the fields that 7.0 lacks or that are not part of any contract."""
    if not _is_map(reply):
        return (
            Typed(reply.kind, [_information(one) for one in reply.elements])
            if reply.elements
            else reply
        )
    kept: list[Typed] = []
    for index in range(0, len(reply.elements), 2):
        field, value = reply.elements[index : index + 2]
        if field.value not in _NEWER_FIELDS and field.value not in _INNER_FIELDS:
            kept += [
                field,
                value
                if field.value in (b"entries", b"first-entry", b"last-entry")
                else _information(value),
            ]
    return Typed(reply.kind, kept)


def _line_up(theirs: Typed, own: Typed) -> Typed:
    """Our XINFO reply, with values of theirs where the difference is permitted.

    These are times that are near, and `lag` and `entries-read` where Redis gives null.
    """
    if theirs.kind != own.kind or len(theirs.elements) != len(own.elements) or not own.elements:
        return own
    lined = [_line_up(one, other) for one, other in zip(theirs.elements, own.elements, strict=True)]
    if _is_map(own):
        for index in range(0, len(lined), 2):
            field, value, other = (
                own.elements[index].value,
                lined[index + 1],
                theirs.elements[index + 1],
            )
            if field in _TIME_FIELDS:
                lined[index + 1] = _near_number(other, value)
            elif (
                field in (b"lag", b"entries-read")
                and other.value is None
                and isinstance(value.value, int)
            ):
                lined[index + 1] = other
            elif field == b"pending":
                lined[index + 1] = _near(
                    other, value, len(value.elements[0].elements) - 2 if value.elements else 0
                )
    return Typed(own.kind, lined)
