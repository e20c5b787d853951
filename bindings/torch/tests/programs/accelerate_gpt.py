# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate on CPUs; it asks for "gloo" by itself, so Tutti takes that name."""

import sys

import torch
from accelerate import Accelerator

import harness
import models

OWN_INIT = True


def program(rank):
    if rank.backend == "tutti":
        import tutti_torch
        tutti_torch.install_as_gloo()

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    backend = torch.distributed.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    assert type(backend).__module__.startswith("tutti_torch") == (rank.backend == "tutti"), backend
    tokens, targets = models.text(64, rank.data(1))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens, targets), batch_size=4)
    model = models.GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for tokens, targets in loader:
        with accelerator.accumulate(model):
            loss = model(tokens, targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    rank.say_losses(losses)
    rank.say(f"{accelerator.num_processes} processes, {accelerator.distributed_type}")
    accelerator.wait_for_everyone()
    everybody = accelerator.gather_for_metrics([f"object of rank {rank.rank}"], use_gather_object=True)
    rank.say(str(everybody))
    accelerator.end_training()


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
