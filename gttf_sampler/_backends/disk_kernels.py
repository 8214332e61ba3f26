"""The compiled loops that read rows from a file, and that place rows of a cache."""

from numba import int64, types

from gttf_sampler._backends.kernels import _compiled

_pread = types.ExternalFunction(
    "pread", types.intp(types.intc, types.uintp, types.uintp, types.int64)
)
_memcpy = types.ExternalFunction(
    "memcpy", types.uintp(types.uintp, types.uintp, types.uintp)
)


@_compiled
def _together(a, b, ids, place):
    """Whether rows stand in what is written as they stand in the file."""
    for i in range(a + 1, b):
        if ids[i] - ids[a] != i - a or place[i] - place[a] != i - a:
            return False
    return True


@_compiled
def read_runs(
    lo, hi, handle, base, stride, align, spare, ids, place, start, out, failed
):
    """Reads runs lo to hi; see `Reads`.

    `spare` is the address of memory for the longest of them, with what aligns it.
    """
    for run in range(lo, hi):
        a, b = start[run], start[run + 1]
        begin = base + ids[a] * stride
        length = (ids[b - 1] - ids[a] + 1) * stride
        if align == 1 and _together(a, b, ids, place):
            target = out + place[a] * stride
            if _pread(handle, target, length, begin) != length:
                failed[run] = 1
            continue
        first = begin // align * align
        size = (begin + length - first + align - 1) // align * align
        got = _pread(handle, spare, size, first)
        if got < begin + length - first:
            failed[run] = 1
            continue
        for i in range(a, b):
            row = spare + (base + ids[i] * stride - first)
            _memcpy(out + place[i] * stride, row, stride)


@_compiled
def place_rows(lo, hi, values, slot, stride, out):
    """Copies row slot[i] of `values` to row i of `out`, unless it is negative."""
    for i in range(lo, hi):
        if slot[i] >= 0:
            _memcpy(out + i * stride, values + int64(slot[i]) * stride, stride)
