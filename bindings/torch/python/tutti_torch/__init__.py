# SPDX-License-Identifier: Apache-2.0
"""Tutti's collectives for PyTorch programs on CPUs.

    import torch.distributed as dist
    dist.init_process_group("tutti")          # instead of "gloo"

Importing the package registers the backend; PyTorch also finds it by itself when it is installed. See
docs/pytorch.md of Tutti.
"""

import ctypes
import glob
import os


def _autoload():
    """PyTorch's entry point for automatic loading: importing this module was all.

    Defined before PyTorch is imported: when a program imports this package first, PyTorch asks for the entry point while
    this module is half-way through its first import."""


import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import Backend as _PlainBackend  # noqa: E402


def _check_version(built, found):
    if built.split("+")[0].split(".")[:2] != found.split("+")[0].split(".")[:2]:
        raise ImportError(
            f"tutti_torch was built for PyTorch {built} and this is PyTorch {found}; "
            "build it again: pip install --no-build-isolation --force-reinstall ./bindings/torch"
        )


def _load():
    if not dist.is_available():
        raise ImportError("tutti_torch needs a PyTorch that was built with torch.distributed")
    # Alone and first: loaded as a part of the extension, libtutti would find PyTorch's copy of oneDNN before its own.
    library = glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtutti.so*"))
    try:
        if library:
            ctypes.CDLL(library[0], mode=os.RTLD_NOW | os.RTLD_LOCAL)
        from . import _C
    except (ImportError, OSError) as error:
        raise ImportError(
            f"tutti_torch cannot load its library with PyTorch {torch.__version__}: {error}"
        ) from error
    _check_version(_C.torch_version, torch.__version__)
    return _C


_C = _load()
__version__ = _C.tutti_version
Options = _C.Options
Backend = _C.Backend


def _share_buckets():
    """DDP takes its buckets from the group unless this is 1, PyTorch's default; the user's choice stands.

    With an accelerator it would change what its backend does too, so there it is left to the user."""
    if not torch.accelerator.is_available():
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")


def _creator(name):
    def create(options, pg_options):
        if pg_options is not None and not isinstance(pg_options, _PlainBackend.Options):
            raise TypeError("expected pg_options of type tutti_torch.Options or another class of backend options, "
                            f"got {type(pg_options).__name__}")
        _share_buckets()
        return _C.create(options, pg_options, name)

    return create


def register():
    """Make "tutti" known to torch.distributed; importing the package does it. Harmless when repeated."""
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _creator("tutti"), extended_api=True, devices=["cpu"])


def install_as_gloo():
    """From here on, groups with the backend "gloo" are served by Tutti."""
    register()
    dist.Backend.register_backend(
        "gloo", _creator("gloo"), extended_api=True, devices=["cpu"],
        _backend_type=dist.ProcessGroup.BackendType.GLOO,
    )


def backend_of(group=None):
    """The Tutti backend that serves CPU tensors in `group` (None: the default one)."""
    group = group or dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    while not isinstance(backend, Backend) and hasattr(backend, "wrapped_pg"):
        backend = backend.wrapped_pg  # TORCH_DISTRIBUTED_DEBUG=DETAIL
    if not isinstance(backend, Backend):
        raise ValueError(f"expected a group whose CPU backend is tutti, got {type(backend).__name__}")
    return backend


def empty(*size, dtype=None, group=None):
    """As torch.empty, in memory that the group's ranks share: collectives on it need no copy."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    return backend_of(group)._empty(list(size), dtype or torch.get_default_dtype())


register()
