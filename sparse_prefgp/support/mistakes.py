"""Which errors are mistakes of whoever uses the package, and which are faults of the package."""

from __future__ import annotations

import dis

_PACKAGE = __name__.partition(".")[0]
_RAISE = dis.opmap["RAISE_VARARGS"]


def is_mistake(error: BaseException) -> bool:
    """Whether it is a sentence of ours: a ValueError, or that a package is missing, which a line of
    this package raised.

    NumPy, pandas and Python's own functions raise ValueErrors too. Those that can come of a file, a
    configuration or a kernel are caught where it enters, and named; any other is a fault.
    """
    if not isinstance(error, ValueError | ModuleNotFoundError):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return True  # nobody raised it yet
    frame = last.tb_frame
    ours = str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE
    # What is written in C has no frame of its own: then a line of ours called, and did not raise.
    return ours and frame.f_code.co_code[last.tb_lasti] == _RAISE
