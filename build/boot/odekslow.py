"""LZMA for a Python that was built without it: in seconds, not in 30 ms."""

from __future__ import annotations

# where the odds of each kind of decision stand; the first six kinds have a place for each of 12 states
_MATCH, _REPEATED, _NOT_LAST, _NOT_SECOND, _NOT_THIRD, _LONG = range(0, 72, 12)
_SLOT, _MIDDLE, _LOW, _LENGTH, _REPEATED_LENGTH, _LITERAL = 72, 328, 448, 464, 738, 1012
_END = 0xFFFFFFFF
"""the distance that says that no more follows"""


class _Bits:
    """What was written with an arithmetic coder."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self.at = 18  # behind the header, a zero, and the first four bytes
        self.code = int.from_bytes(packed[14:18], "big")
        self.width = _END
        self.odds = [1024] * (_LITERAL + 16 * 0x300)

    def bit(self, place: int) -> int:
        """Return the next bit, which is a 0 with the odds at `place`, out of 2048; they learn from it."""
        odd = self.odds[place]
        bound = (self.width >> 11) * odd
        one = self.code >= bound
        if one:
            self.width -= bound
            self.code -= bound
            self.odds[place] = odd - (odd >> 5)
        else:
            self.width = bound
            self.odds[place] = odd + ((2048 - odd) >> 5)
        if self.width < 1 << 24:
            self.refill()
        return one

    def refill(self) -> None:
        self.width <<= 8
        self.code = self.code << 8 | self.packed[self.at]
        self.at += 1

    def number(self, place: int, bits: int) -> int:
        """Return a number, its highest bit first."""
        found = 1
        for _ in range(bits):
            found = found << 1 | self.bit(place + found)
        return found - (1 << bits)

    def reversed_number(self, place: int, bits: int) -> int:
        """Return a number, its lowest bit first."""
        path, found = 1, 0
        for turn in range(bits):
            one = self.bit(place + path)
            path = path << 1 | one
            found |= one << turn
        return found

    def even_number(self, bits: int) -> int:
        """Return a number whose bits were as likely 0 as 1."""
        found = 0
        for _ in range(bits):
            self.width >>= 1
            one = self.code >= self.width
            self.code -= self.width * one
            found = found << 1 | one
            if self.width < 1 << 24:
                self.refill()
        return found

    def literal(self, place: int, expected: int) -> int:
        """Return a byte. `expected` is what stood where the last match would go on, or -1."""
        found = 1
        while expected >= 0 and found < 256:
            expected <<= 1
            likely = expected >> 8 & 1
            found = found << 1 | self.bit(place + (1 + likely << 8) + found)
            if found & 1 != likely:
                break
        while found < 256:
            found = found << 1 | self.bit(place + found)
        return found & 255

    def length(self, place: int) -> int:
        """Return how long a match is."""
        if not self.bit(place):
            return 2 + self.number(place + 2, 3)
        if not self.bit(place + 1):
            return 10 + self.number(place + 10, 3)
        return 18 + self.number(place + 18, 8)

    def distance(self, length: int) -> int:
        """Return how far back a match of this length begins, less 1."""
        slot = self.number(_SLOT + min(length - 2, 3) * 64, 6)
        if slot < 4:
            return slot
        bits = (slot >> 1) - 1
        least = (2 | slot & 1) << bits
        if slot < 14:
            return least + self.reversed_number(_MIDDLE + least - slot, bits)
        return least + (self.even_number(bits - 4) << 4) + self.reversed_number(_LOW, 4)

    def repeated(self, state: int) -> int:
        """Return which of the last four distances it is."""
        for place, kind in enumerate((_NOT_LAST, _NOT_SECOND, _NOT_THIRD)):
            if not self.bit(kind + state):
                return place
        return 3


def decompress(packed: bytes) -> bytes:
    """Return what a .lzma file of zipapp.py holds: lc 4, lp 0, pb 0, an end marker, and no size in the header."""
    bits, out, last, state = _Bits(packed), bytearray(), [0, 0, 0, 0], 0
    while True:
        if not bits.bit(_MATCH + state):
            place = _LITERAL + 0x300 * (out[-1] >> 4 if out else 0)
            out.append(bits.literal(place, out[-1 - last[0]] if state >= 7 else -1))
            state = max(state - 3, 0) if state < 10 else state - 6
            continue
        if bits.bit(_REPEATED + state):
            which = bits.repeated(state)
            last.insert(0, last.pop(which))
            if which == 0 and not bits.bit(_LONG + state):
                out.append(out[-1 - last[0]])
                state = 9 if state < 7 else 11
                continue
            length = bits.length(_REPEATED_LENGTH)
            state = 8 if state < 7 else 11
        else:
            length = bits.length(_LENGTH)
            last = [bits.distance(length), *last[:3]]
            state = 7 if state < 7 else 10
        if last[0] == _END:
            return bytes(out)
        begin = len(out) - 1 - last[0]
        piece = out[begin : begin + length]  # shorter than asked for where the match goes on in itself
        out += (piece * length)[:length] if len(piece) < length else piece
