# SPDX-License-Identifier: Apache-2.0
"""Lets tests that ask for an accelerator per rank run on the CPU.

A third of PyTorch's suite is written for GPUs although nothing but the device of its tensors is
special: most of DDP, bool, coalescing, reduce_scatter, all_gather of unequal sizes. Here every "cuda"
device and every device number means the CPU. That is done where PyTorch takes devices, never in a
test; what the CPU cannot do (SyncBatchNorm, streams) fails the same way over every backend.
"""

import contextlib
import functools

import torch
from torch.overrides import TorchFunctionMode


def on_cpu(device):
    """The CPU for whatever names an accelerator, anything else unchanged."""
    if isinstance(device, bool):
        return device
    if isinstance(device, int):
        return torch.device("cpu")
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    if isinstance(device, str) and device.startswith("cuda"):
        return "cpu"
    return device


class OnCpu(TorchFunctionMode):
    """Turns the devices among the arguments of PyTorch's functions into the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if func is torch.Tensor.cuda:
            return args[0].clone()  # a tensor that moves is a copy
        if func is torch.Tensor.to and len(args) > 1:
            args = (args[0], on_cpu(args[1]), *args[2:])
        return func(*args, **kwargs)


class Stream:
    """A stream or an event of a device that does everything at once."""

    device = torch.device("cpu")

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def wait(self, *args, **kwargs):
        return None

    is_capturing = record = synchronize = wait_stream = wait_event = record_event = wait


def nothing():
    """A new function that does nothing: torch.compile tells functions apart by identity."""
    return lambda *args, **kwargs: None


def adapt_modules():
    """nn.Module takes devices without passing through a function of PyTorch; DDP takes them apart."""
    module_to = torch.nn.Module.to

    def to(self, *args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        return module_to(self, *map(on_cpu, args[:1]), *args[1:], **kwargs)

    torch.nn.Module.to = to
    torch.nn.Module.cuda = lambda self, device=None: self

    ddp_init = torch.nn.parallel.DistributedDataParallel.__init__

    @functools.wraps(ddp_init)
    def init(self, module, device_ids=None, output_device=None, *args, **kwargs):
        ddp_init(self, module, None, None, *args, **kwargs)

    torch.nn.parallel.DistributedDataParallel.__init__ = init


def adapt_groups(backend):
    """Groups for accelerators are groups of the backend under test."""
    new_group = torch.distributed.new_group

    @functools.wraps(new_group)
    def group(*args, **kwargs):
        if kwargs.get("backend") == "nccl":
            kwargs["backend"] = backend
        return new_group(*args, **kwargs)

    torch.distributed.new_group = group


def install(count, backend):
    """Pretends that there are `count` accelerators; the ranks must run inside OnCpu()."""
    for name in ("set_device", "synchronize", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, nothing())
    torch.cuda.device = lambda device: contextlib.nullcontext()
    torch.cuda.device_count = lambda: count
    torch.cuda.current_device = lambda: 0
    torch.accelerator.is_available = lambda: True
    torch.accelerator.device_count = lambda: count
    torch.accelerator.set_device_index = nothing()
    torch.accelerator.synchronize = nothing()
    torch.accelerator.current_stream = lambda device=None: Stream()
    torch.Stream = torch.Event = torch.cuda.Stream = torch.cuda.Event = Stream
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.cuda.current_stream = lambda device=None: Stream()
    adapt_modules()
    adapt_groups(backend)
