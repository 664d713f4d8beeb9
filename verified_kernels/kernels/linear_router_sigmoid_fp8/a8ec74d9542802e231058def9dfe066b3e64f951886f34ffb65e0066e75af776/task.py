"""A router of a mixture of experts that scores by sigmoid and chooses by a corrected score, as in DeepSeek-V3.

score = sigmoid(x W^T); experts are chosen by score + correction, which balances their load without a loss, and weighted
by score alone; DeepSeek-AI 2024, arXiv 2412.19437.  256 experts of width 7168 (DeepSeek-V3), 128 of 4096 (GLM-4.5-Air).
x [M, K], w [N, K], correction [N] in float32 give score [M, N] and chosen_by [M, N] in float32.
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='2 * K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    correction=Tensor('N', 'f32', low=-0.5, high=0.5),
    out={'score': Tensor('M N', 'f32'), 'chosen_by': Tensor('M N', 'f32')},
    workloads=[{'M': 4096, 'N': 256, 'K': 7168}, {'M': 8192, 'N': 128, 'K': 4096}, {'M': 16384, 'N': 256, 'K': 7168}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_router_sigmoid_fp8(x, w, x_scale, w_scale, correction):
    """score = sigmoid(x @ w.T); chosen_by = score + correction. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    score = torch.sigmoid((x @ w.T * x_scale[:, None] * w_scale).float())
    return {'score': score, 'chosen_by': score + correction}
