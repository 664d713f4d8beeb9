"""The output gate of linear attention: y = o silu(x W^T), as in RetNet, gated linear attention and Mamba 2.

Sun et al. 2023, arXiv 2307.08621; Yang et al. 2023, arXiv 2312.06635.
x [M, K], w [N, K], o [M, N] (what attention gave, normalised) give y [M, N].
"""

from codasmith.tasks import Tensor, task

from torch.nn.functional import silu

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    o=Tensor('M N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 2048}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_silu_gate_fp8(x, w, x_scale, w_scale, o):
    """y = o * silu(x @ w.T). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': o * silu(x @ w.T * x_scale[:, None] * w_scale)}
