"""A projection back into the residual stream, with a bias: y = r + x W^T + b, as in GPT-2, BERT and ViT.

x [M, K], w [N, K], bias [N], residual [M, N] give y [M, N].  The last shape is the second MLP layer of GPT-2 XL.
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N'),
    residual=Tensor('M N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 1600, 'K': 6400}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_residual_fp8(x, w, x_scale, w_scale, bias, residual):
    """y = residual + x @ w.T + bias. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': residual + (x @ w.T * x_scale[:, None] * w_scale + bias)}
