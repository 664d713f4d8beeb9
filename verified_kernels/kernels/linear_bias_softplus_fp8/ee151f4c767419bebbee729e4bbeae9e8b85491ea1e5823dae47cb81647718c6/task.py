"""The step sizes of a selective state space model: delta = softplus(x W^T + b), from a low-rank projection.

Gu and Dao 2023 (Mamba), arXiv 2312.00752.  The last shape is Falcon Mamba 7B: rank 256, inner width 8192.
x [M, K], w [N, K], bias [N] in float32 give delta [M, N].
"""

from codasmith.tasks import Tensor, task

from torch.nn.functional import softplus

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N', 'f32', low=-4.0, high=1.0),
    out={'delta': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 8192, 'K': 256}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_softplus_fp8(x, w, x_scale, w_scale, bias):
    """delta = softplus(x @ w.T + bias). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'delta': softplus(x @ w.T * x_scale[:, None] * w_scale + bias)}
