"""The package `kvplan.kernels`, whose modules are the files of the kernels/ folder.

A module with a `__path__` is a package, so `kvplan.kernels.paged_decode` is kernels/paged_decode.py in a checkout, an
editable install and a wheel alike. There is no kernels/__init__.py: it would shadow another project's `kernels` package
whenever Python runs in the repository's root.
"""

from __future__ import annotations

from kvplan.assets import KERNELS

__path__ = [str(KERNELS)]


def names() -> list[str]:
    """Return the names of the kernel modules, sorted."""
    return sorted(path.stem for path in KERNELS.glob("[a-z]*.py"))
