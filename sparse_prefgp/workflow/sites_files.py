"""Files for the sites of a fit in chunks: none is lost, and none stays of a fit that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from sparse_prefgp.disk.folders import beside, held
from sparse_prefgp.support.numpy_files import read_arrays
from sparse_prefgp.workflow.settings import FitSettings


@contextmanager
def sites_kept_if_done(settings: FitSettings, resumed: bool = False) -> Iterator[None]:
    """Check the files of the sites before anything slow; none stays unless all goes well, so that a
    fit that is resumed can make them again.

    :param resumed: whether the run that is resumed may have been killed, and so have left
        them.
    :raises ValueError: a file that exists already, is not a .npy file, or lies in no folder, or to
        which another fit is writing; sites with a scheduler.
    """
    files = settings.sites_files
    for path in files:
        if path.suffix != ".npy":
            raise ValueError(
                f"The file for the sites {str(path)!r} is not a .npy file; let its name end so."
            )
        if not path.parent.is_dir():
            raise ValueError(
                f"The file for the sites {str(path)!r} lies in no folder; make the folder "
                f"{str(path.parent)!r} first."
            )
    with ExitStack() as stack:
        for path in files:
            stack.enter_context(held(path, "fit"))
            if path.exists() and not (resumed and is_sites_file(path)):
                raise ValueError(
                    f"The file for the sites {str(path)!r} exists already; remove it, or give "
                    "another name."
                )
        # Not lost unless the fit is done: it may be refused.
        left = {path: stack.enter_context(beside(path)) for path in files if path.exists()}
        for path, aside in left.items():
            path.replace(aside)
        try:
            yield
        except BaseException:  # Ctrl-C too
            for path in files:
                if is_sites_file(path):  # what somebody else has put there meanwhile stays
                    path.unlink()
                if path in left and not path.exists():
                    left[path].replace(path)
            raise


def is_sites_file(path: Path) -> bool:
    """Whether it is an array of sites, nu and tau, as a fit keeps it."""
    try:
        array = read_arrays(path)
    except ValueError:
        return False
    if not isinstance(array, np.ndarray):  # an archive of several
        return False
    return bool(array.ndim == 2 and len(array) == 2 and array.dtype == np.float64)
