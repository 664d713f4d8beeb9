"""One of several processes that train a stack and a loss together; run by test_distributed.py.

python two_processes.py WHICH RANK WORLD DEVICE BACKEND FILE: exits with 0 where the gradients are those of one
process that sees all rows.
"""

import sys
import warnings

import torch
import torch.distributed as dist
from codasmith.verified_kernels.modules import LinearCrossEntropy, LlamaBlock, LlamaLayers, LlamaShape, SwiGLUMLP
from torch import nn

which, rank, world, device, backend, meeting = sys.argv[1:7]
rank, world = int(rank), int(world)
warnings.simplefilter("ignore")
GPU = device == "cuda"
SHAPE = LlamaShape(256, 512, 2, 1, 128) if GPU else LlamaShape(32, 48, 4, 2, 8)
VOCABULARY, TOKENS = (512, 64) if GPU else (24, 6)
TOLERANCE = 3e-2 if GPU else 1e-4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = LlamaLayers(LlamaBlock(SHAPE, i) for i in range(2))
        self.mlp = SwiGLUMLP(SHAPE.hidden_size, SHAPE.intermediate_size)
        self.loss = LinearCrossEntropy(SHAPE.hidden_size, VOCABULARY)

    def forward(self, x, angles, target):
        for layer in self.layers:
            x = layer(x, *angles)
        return self.loss(x + self.mlp(x), target)


def made():
    torch.manual_seed(0)
    model = Model().to(device)
    return model.to(torch.bfloat16) if GPU else model


def main():
    if GPU:
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=world)
    torch.manual_seed(1)
    rows = torch.randn(2 * world, TOKENS, SHAPE.hidden_size)
    targets = torch.randint(0, VOCABULARY, (2 * world, TOKENS)).to(device)
    alone = made()
    rows = rows.to(next(alone.parameters()))
    turns = torch.outer(torch.arange(TOKENS), torch.linspace(1, 0.1, SHAPE.head_dim // 2)).repeat(1, 2)
    angles = turns.cos().to(rows), turns.sin().to(rows)
    alone(rows, angles, targets).backward()
    expected = {name: w.grad.float() for name, w in alone.named_parameters()}
    state = {name: value.clone() for name, value in alone.state_dict().items()}
    mine = slice(2 * rank, 2 * rank + 2)
    model = made()
    if which == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        whole = DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device, (world,))
        for part in (*model.layers, model.mlp):
            fully_shard(part, mesh=mesh)
        whole = fully_shard(model, mesh=mesh)
    whole(rows[mine], angles, targets[mine]).backward()
    for name, weight in model.named_parameters():
        found = weight.grad.full_tensor() if hasattr(weight.grad, "full_tensor") else weight.grad
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(found.float(), expected[name], rtol=TOLERANCE, atol=TOLERANCE * scale, msg=name)
    if which == "fsdp":
        gathered = {name: value.full_tensor() for name, value in model.state_dict().items()}
        assert set(gathered) == set(state), sorted(set(gathered) ^ set(state))
        for name, value in state.items():
            assert torch.equal(gathered[name], value), name
    dist.barrier()
    dist.destroy_process_group()


main()
