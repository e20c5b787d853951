# SPDX-License-Identifier: Apache-2.0
"""The training steps of train.c in PyTorch eager, behind the same little protocol.

usage: torch_train.py CASE THREADS [RANK SIZE FILE]

With a rank it is one of SIZE that meet at FILE and train with DistributedDataParallel over Gloo.

Prints "ready" after the first step; then, for every line "N" on standard input, runs N steps and prints
their times in milliseconds on one line; at the end of input prints "rss KB".
"""
import resource
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def tiny():
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = torch.randn(8, 32), torch.randn(8, 1)
    return net, torch.optim.SGD(net.parameters(), lr=1e-3), lambda net: F.mse_loss(net(x), y)


def mlp():
    net = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    return net, torch.optim.Adam(net.parameters()), lambda net: F.cross_entropy(net(x), y)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + skip, inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    cin = 64
    for i, cout in enumerate((64, 128, 256, 512)):
        layers += [Block(cin, cout, 1 if i == 0 else 2), Block(cout, cout, 1)]
        cin = cout
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    return net, opt, lambda net: F.cross_entropy(net(x), y)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.width, self.heads = width, heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(self.width, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, index):
        x = self.tok(index) + self.pos(torch.arange(index.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


def gpt():
    vocab, context = 256, 256
    net = Gpt(6, 384, 6, context, vocab)
    data = torch.randint(0, vocab, (4, context + 1))
    x, y = data[:, :-1].contiguous(), data[:, 1:].contiguous()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    return net, opt, lambda net: F.cross_entropy(net(x).view(-1, vocab), y.view(-1))


def embedding_bag():
    bag = nn.EmbeddingBag(100000, 64, mode="sum", sparse=True)
    net = nn.Sequential(bag, nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    batches = [torch.randint(0, 100000, (512, 20)) for _ in range(8)]
    y = torch.randint(0, 2, (512, 1)).float()
    turn = [0]

    def loss(net):
        turn[0] += 1
        return F.binary_cross_entropy_with_logits(net(batches[turn[0] % 8]), y)

    return net, torch.optim.Adagrad(net.parameters(), lr=1e-2), loss


CASES = {f.__name__: f for f in (tiny, mlp, resnet18, gpt, embedding_bag)}


def main():
    torch.set_num_threads(int(sys.argv[2]))
    net, opt, loss = CASES[sys.argv[1]]()
    if len(sys.argv) > 3:
        rank, size, path = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)

    def step():
        opt.zero_grad(set_to_none=True)
        loss(net).backward()
        opt.step()

    step()
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            times.append(f"{(time.perf_counter() - start) * 1e3:.6f}")
        print(" ".join(times), flush=True)
    print("rss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
