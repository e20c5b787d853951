# SPDX-License-Identifier: Apache-2.0
"""The models of the golden trainings.

Parameter names and their order are PyTorch's (named_parameters). Each model has
loss(batch) -> scalar, where batch maps an input's name to its tensor.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """20 -> 32 -> 16 -> 5 with ReLU and tanh; cross entropy."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5)
        )

    def loss(self, batch):
        return F.cross_entropy(self.net(batch["x"]), batch["y"])


class Cnn(nn.Module):
    """Two convolution + batch norm + ReLU stages with max pooling, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 2 * 2, 10)

    def loss(self, batch):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(batch["x"]))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return F.cross_entropy(self.fc(x.flatten(1)), batch["y"])


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut, projected when the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """The usual ResNet-18 (7x7 stem, max pooling, four stages of two blocks), 10 classes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, 10)

    def loss(self, batch):
        x = F.relu(self.bn1(self.conv1(batch["x"])))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.cross_entropy(self.fc(x), batch["y"])


class Conv1D(nn.Module):
    """A linear layer whose weight is stored [in, out], as GPT-2's checkpoints have it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (s.view(b, t, self.heads, c // self.heads).transpose(1, 2) for s in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Gpt2Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Gpt2Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Gpt2Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """GPT-2 with the head tied to wte; tokens [B, T + 1] give both inputs and targets."""

    def __init__(self, vocab=128, context=32, width=64, heads=4, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList([Gpt2Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def loss(self, batch):
        x, y = batch["tokens"][:, :-1], batch["tokens"][:, 1:]
        e = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            e = block(e)
        logits = F.linear(self.ln_f(e), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Recurrent(nn.Module):
    """Two recurrent layers; the last time step goes through a linear layer."""

    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(6, 12, num_layers=2, batch_first=True)
        self.fc = nn.Linear(12, 4)

    def loss(self, batch):
        y, _ = self.rnn(batch["x"])
        return F.cross_entropy(self.fc(y[:, -1]), batch["y"])


class Bag(nn.Module):
    """A sparse embedding bag (mean) of 5 bags over 14 words, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 8, mode="mean", sparse=True)
        self.fc = nn.Linear(8, 3)

    def loss(self, batch):
        offsets = torch.tensor([0, 3, 4, 8, 10])
        return F.cross_entropy(self.fc(self.bag(batch["words"], offsets)), batch["y"])


class Encoder(nn.Module):
    """A linear embedding, two transformer encoder layers (ReLU, no dropout), mean, linear."""

    def __init__(self, norm_first):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        self.embed = nn.Linear(6, 16)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(16, 5)

    def loss(self, batch):
        y = self.encoder(self.embed(batch["x"]))
        return F.cross_entropy(self.fc(y.mean(1)), batch["y"])


class Autoencoder(nn.Module):
    """Convolutions down, transposed convolutions up, group norm and SiLU between; MSE."""

    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm1 = nn.GroupNorm(2, 8)
        self.down2 = nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(3, 12)
        self.up1 = nn.ConvTranspose2d(12, 8, 3, stride=2, padding=1, output_padding=1)
        self.norm3 = nn.GroupNorm(2, 8)
        self.up2 = nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)

    def loss(self, batch):
        x = F.silu(self.norm1(self.down1(batch["x"])))
        x = F.silu(self.norm2(self.down2(x)))
        x = F.silu(self.norm3(self.up1(x)))
        return F.mse_loss(self.up2(x), batch["x"])
