"""The clamped SwiGLU of gpt-oss, with its bias: o = (up + 1) gate sigmoid(alpha gate).

gate is limited from above, up from both sides; the checkpoint's columns alternate gate, up (gpt-oss model card,
arXiv 2508.10925).  x [M, K], w [2F, K] and bias [2F] as pairs, alpha and limit give o [M, F].  The weights are
drawn so that pre-activations reach the limit.
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('2F K', scale='3 * K**-0.5', layout='pairs'),
    w_scale=Tensor('2F', 'f32', layout='pairs', low=0.5, high=1.5),
    bias=Tensor('2F', layout='pairs'),
    alpha=Tensor('', low=1.25, high=2.0),
    limit=Tensor('', low=2.0, high=4.0),
    out={'o': Tensor('M F')},
    workloads=[{'M': 4096, 'F': 2048, 'K': 4096}, {'M': 8192, 'F': 4096, 'K': 8192}, {'M': 8192, 'F': 2880, 'K': 2880}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_swiglu_limit_fp8(x, w, x_scale, w_scale, bias, alpha, limit):
    """o = (up + 1) * gate * sigmoid(alpha * gate), gate at most limit, up within [-limit, limit]. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    gate, up = (x @ w.T * x_scale[:, None] * w_scale + bias).unflatten(-1, (-1, 2)).unbind(-1)
    gate, up = (gate.clamp(max=limit), up.clamp(-limit, limit))
    return {'o': (up + 1) * gate * torch.sigmoid(alpha * gate)}
