"""The down projection of an expert with a bias, times the router's weight for each token: y = r_m (x W^T + b).

As in gpt-oss, whose experts have biases; 2880 is its width.  OpenAI 2025, arXiv 2508.10925.
x [M, K], w [N, K], bias [N], router [M] in float32 give y [M, N].
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
    router=Tensor('M', 'f32', low=0.1, high=1.0),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 2880, 'K': 2880}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def moe_down_weighted_fp8(x, w, x_scale, w_scale, bias, router):
    """y = router * (x @ w.T + bias), one weight a row. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': router[:, None] * (x @ w.T * x_scale[:, None] * w_scale + bias)}
