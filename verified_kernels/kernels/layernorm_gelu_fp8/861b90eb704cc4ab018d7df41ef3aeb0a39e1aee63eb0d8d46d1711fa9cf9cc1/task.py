"""Deferred LayerNorm, then bias and GELU: the first layer of the MLP of GPT-2, ViT and Whisper.

With W' = W gamma: LayerNorm(x) W^T + b = rstd (x W'^T - mean u) + v, where u_n are the row sums of W' and
v = beta W^T + b.  The last shape is the MLP of Whisper large, 1280 to 5120 wide; Radford et al. 2022, arXiv 2212.04356.
x [M, K], w = W' [N, K], mean and rstd [M] in float32, u [N] in float32, v [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task

from torch.nn.functional import gelu

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    mean=Tensor('M', 'f32', scale=0.5),
    rstd=Tensor('M', 'f32', low=0.5, high=1.5),
    u=Tensor('N', 'f32'),
    v=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 5120, 'K': 1280}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def layernorm_gelu_fp8(x, w, x_scale, w_scale, mean, rstd, u, v):
    """y = gelu(rstd * (x @ w.T - mean * u) + v), with the exact (erf) GELU. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': gelu(rstd[:, None] * (x @ w.T * x_scale[:, None] * w_scale - mean[:, None] * u) + v)}
