"""A plain linear layer: y = x W^T + b.

x [M, K], w [N, K], b [N] give y [M, N].  Qwen2's QKV projection has this form.
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4608, 'K': 3584}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_fp8(x, w, x_scale, w_scale, bias):
    """y = x @ w.T + bias. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': x @ w.T * x_scale[:, None] * w_scale + bias}
