"""The sigmoid loss of a batch of images and texts, one sum an image, without the matrix of pairs in memory.

loss_m = sum_n softplus(-z_mn l_mn) with l = t x W^T + b, z_mm = 1 and z_mn = -1 elsewhere; Zhai et al. 2023 (SigLIP),
arXiv 2303.15343.  x [M, K] are images, w [N, K] texts, and with two numbers they give loss [M] in float32.
"""

import torch

from codasmith.tasks import Tensor, task

from torch.nn.functional import softplus

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    temperature=Tensor('', low=1.0, high=2.0),
    bias=Tensor('', low=-2.0, high=-0.5),
    out={'loss': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 16384, 'K': 1152}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def siglip_loss_fp8(x, w, x_scale, w_scale, temperature, bias):
    """Row sums of softplus of the pairs' logits, with the sign of the matching pair turned. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = (x @ w.T * x_scale[:, None] * w_scale).float() * temperature + bias
    rows, columns = (torch.arange(x.shape[0], device=x.device), torch.arange(w.shape[0], device=x.device))
    signed = torch.where(rows[:, None] == columns, -logits, logits)
    return {'loss': softplus(signed).sum(-1)}
