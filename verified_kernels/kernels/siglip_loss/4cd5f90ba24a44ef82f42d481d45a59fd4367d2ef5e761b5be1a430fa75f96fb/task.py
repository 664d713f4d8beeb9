"""The sigmoid loss of a batch of images and texts, one sum an image, without the matrix of pairs in memory.

loss_m = sum_n softplus(-z_mn l_mn) with l = t x W^T + b, z_mm = 1 and z_mn = -1 elsewhere; Zhai et al. 2023 (SigLIP),
arXiv 2303.15343.  x [M, K] are images, w [N, K] texts, and with two numbers they give loss [M] in float32.
"""

import torch
from codasmith.tasks import Tensor, task
from torch.nn.functional import softplus


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    temperature=Tensor("", low=1.0, high=2.0),
    bias=Tensor("", low=-2.0, high=-0.5),
    out={"loss": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 16384, "K": 1152},
    ],
)
def siglip_loss(x, w, temperature, bias):
    """Row sums of softplus of the pairs' logits, with the sign of the matching pair turned."""
    logits = (x @ w.T).float() * temperature + bias
    rows, columns = torch.arange(x.shape[0], device=x.device), torch.arange(w.shape[0], device=x.device)
    signed = torch.where(rows[:, None] == columns, -logits, logits)
    return {"loss": softplus(signed).sum(-1)}
