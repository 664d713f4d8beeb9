"""Deferred RMSNorm, then the squared ReLU: the first layer of the MLP of Nemotron-H.

y = relu((x W^T) rstd)^2; So et al. 2021 (Primer), arXiv 2109.08668; NVIDIA 2025 (Nemotron-H 8B: 4096 to 21504 wide),
arXiv 2504.03624.  x [M, K] (already times the norm's weight), w [N, K], rstd [M] in float32 give y [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    out={"y": Tensor("M N")},
    fp8={"x": "rstd", "w": "rstd"},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 8192, "N": 21504, "K": 4096},
    ],
)
def rmsnorm_relu_sq(x, w, rstd):
    """y = relu((x @ w.T) * rstd) squared."""
    return {"y": torch.relu((x @ w.T) * rstd[:, None]).square()}
