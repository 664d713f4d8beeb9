"""First linear layer of an MLP with the tanh form of GELU: y = gelu_tanh(x W^T + b), as in GPT-2 and SigLIP.

Hendrycks and Gimpel 2016, arXiv 1606.08415.  The last shape is the MLP of SigLIP so400m, 1152 to 4304 wide.
x [M, K], w [N, K], bias [N] give y [M, N].
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
    bias=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4304, 'K': 1152}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_gelu_tanh_fp8(x, w, x_scale, w_scale, bias):
    """y = gelu(x @ w.T + bias), in its tanh approximation. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': gelu(x @ w.T * x_scale[:, None] * w_scale + bias, approximate='tanh')}
