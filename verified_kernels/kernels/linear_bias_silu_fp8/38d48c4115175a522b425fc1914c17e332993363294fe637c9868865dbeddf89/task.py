"""The first layer of a conditioning MLP in a diffusion transformer: y = silu(x W^T + b).

DiT embeds time steps by two linear layers with SiLU between; Peebles and Xie 2022, arXiv 2212.09748.
x [M, K], w [N, K], bias [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task

from torch.nn.functional import silu

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 1152, 'K': 1152}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_silu_fp8(x, w, x_scale, w_scale, bias):
    """y = silu(x @ w.T + bias). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': silu(x @ w.T * x_scale[:, None] * w_scale + bias)}
