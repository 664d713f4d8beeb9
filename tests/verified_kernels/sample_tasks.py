"""Tasks of these tests: the shapes of operator that the registry must know."""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    alpha=Tensor("", low=0.5, high=2.0),
    out={"o": Tensor("M F"), "total": Tensor("M", "f32")},
)
def sample_gated(x, w, rstd, alpha):
    """A gated activation with a float scalar and a row sum."""
    gate, up = ((x @ w.T) * rstd[:, None]).chunk(2, -1)
    o = silu(gate) * up * alpha
    return {"o": o, "total": o.float().sum(-1)}


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"picked": Tensor("M", "f32")},
)
def sample_select(x, w, target):
    """One output, one column of each row."""
    return {"picked": (x @ w.T).float().gather(-1, target[:, None])[:, 0]}


@task(
    gemm="dy @ w",
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    dx=Tensor("M N"),
    accumulates="dx",
    out={"sums": Tensor("M", "f32"), "dx": Tensor("M N")},
)
def sample_accumulate(dy, w, dx):
    """dx is added to in place; the row sums are new."""
    d = dy @ w
    return {"sums": d.float().sum(-1), "dx": dx + d}


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("N K"),
    residual=Tensor("M N"),
    out={"y": Tensor("M N"), "same": Tensor("M N")},
)
def sample_alias(x, w, residual):
    """An output that is an input as it stands."""
    return {"y": x @ w.T + residual, "same": residual}


@task(
    gemm="dy.T @ x",
    dy=Tensor("K M"),
    x=Tensor("K N"),
    dw=Tensor("M N", "f32"),
    accumulates="dw",
    out={"dw": Tensor("M N", "f32")},
)
def sample_add(dy, x, dw):
    """What is added to is all there is."""
    return {"dw": dw + dy.T @ x}
