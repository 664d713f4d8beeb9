"""The down projection of an expert with a bias, times the router's weight for each token: y = r_m (x W^T + b).

As in gpt-oss, whose experts have biases; 2880 is its width.  OpenAI 2025, arXiv 2508.10925.
x [M, K], w [N, K], bias [N], router [M] in float32 give y [M, N].
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    router=Tensor("M", "f32", low=0.1, high=1.0),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 2880, "K": 2880},
    ],
)
def moe_down_weighted(x, w, bias, router):
    """y = router * (x @ w.T + bias), one weight a row."""
    return {"y": router[:, None] * (x @ w.T + bias)}
