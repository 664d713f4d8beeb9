"""Values: arithmetic, activations and their derivatives, one float32 lane at a time.

Cost is instructions, not bytes: nothing here touches memory.  `exp`, `tanh`, `rsqrt`, `log` and
`sqrt` lower to the GPU's approximate units (relative error near 2^-22, `tanh` near 2^-11), far below
what rounding to bfloat16 or float16 costs.
"""

from __future__ import annotations

import math

import torch

from .primitive import primitive

# --- arithmetic: written with operators in an epilogue ------------------------------------------


@primitive("values", "({a} + {b})", bounded=True)
def add(a, b):
    """`a + b`."""
    return a + b


@primitive("values", "({a} - {b})", bounded=True)
def sub(a, b):
    """`a - b`."""
    return a - b


@primitive("values", "({a} * {b})", bounded=True)
def mul(a, b):
    """`a * b`."""
    return a * b


@primitive("values", "({a} / {b})")
def div(a, b):
    """`a / b`, correctly rounded unless b is a constant (then a product with 1/b). A product is cheaper."""
    return a / b


@primitive("values", "(-{x})", bounded=True)
def neg(x):
    """`-x`."""
    return -x


@primitive("values", "cute.math.abs({x})", bounded=True, name="abs")
def absolute(x):
    """|x|."""
    return torch.abs(_tensor(x))


@primitive("values", "device.max_nan({a}, {b})", bounded=True)
def maximum(a, b):
    """The larger of a and b; NaN if either is NaN."""
    return torch.maximum(*_pair(a, b))


@primitive("values", "device.min_nan({a}, {b})", bounded=True)
def minimum(a, b):
    """The smaller of a and b; NaN if either is NaN."""
    return torch.minimum(*_pair(a, b))


@primitive("values", "device.min_nan(device.max_nan({x}, {low}), {high})", bounded=True)
def clamp(x, low, high):
    """x limited to [low, high]."""
    return torch.minimum(torch.maximum(*_pair(x, low)), _tensor(high, x))


# --- comparisons: written with operators in an epilogue ------------------------------------------


@primitive("values", "({a} < {b})", truth=True)
def lt(a, b):
    """`a < b`."""
    return a < b


@primitive("values", "({a} <= {b})", truth=True)
def le(a, b):
    """`a <= b`."""
    return a <= b


@primitive("values", "({a} > {b})", truth=True)
def gt(a, b):
    """`a > b`."""
    return a > b


@primitive("values", "({a} >= {b})", truth=True)
def ge(a, b):
    """`a >= b`."""
    return a >= b


@primitive("values", "({a} == {b})", truth=True)
def eq(a, b):
    """`a == b`."""
    return a == b


@primitive("values", "({a} != {b})", truth=True)
def ne(a, b):
    """`a != b`."""
    return a != b


@primitive("values", "device.both({a}, {b})", truth=True)
def logical_and(a, b):
    """Both conditions; `a & b` in an epilogue."""
    return torch.logical_and(a, b)


@primitive("values", "device.either({a}, {b})", truth=True)
def logical_or(a, b):
    """Either condition; `a | b` in an epilogue."""
    return torch.logical_or(a, b)


@primitive("values", "Float32(cutlass.select_({condition}, {a}, {b}))", bounded=True)
def where(condition, a, b):
    """a where the condition holds, else b. This is the only control flow on values."""
    a, b = _pair(a, b)
    return torch.where(condition, a, b)


# --- transcendental functions --------------------------------------------------------------------


@primitive("values", "cute.math.exp({x}, fastmath=True)")
def exp(x):
    """e to the x."""
    return torch.exp(_tensor(x))


@primitive("values", "cute.math.log({x}, fastmath=True)")
def log(x):
    """Natural logarithm of x."""
    return torch.log(_tensor(x))


@primitive("values", "cute.math.sqrt({x}, fastmath=True)")
def sqrt(x):
    """Square root of x."""
    return torch.sqrt(_tensor(x))


@primitive("values", "cute.math.rsqrt({x}, fastmath=True)")
def rsqrt(x):
    """1 / sqrt(x)."""
    return torch.rsqrt(_tensor(x))


@primitive("values", "cute.arch.rcp_approx({x})")
def reciprocal(x):
    """1 / x, approximate (one unit in the last place): cheaper than `1 / x`."""
    return torch.reciprocal(_tensor(x))


@primitive("values", "cute.math.tanh({x}, fastmath=True)", bounded=True)
def tanh(x):
    """Hyperbolic tangent."""
    return torch.tanh(_tensor(x))


@primitive("values", "cute.math.erf({x})", bounded=True)
def erf(x):
    """The error function."""
    return torch.erf(_tensor(x))


@primitive("values", "cute.math.sin({x}, fastmath=True)", bounded=True)
def sin(x):
    """Sine of x in radians; accurate for |x| up to about 100."""
    return torch.sin(_tensor(x))


@primitive("values", "cute.math.cos({x}, fastmath=True)", bounded=True)
def cos(x):
    """Cosine of x in radians; accurate for |x| up to about 100."""
    return torch.cos(_tensor(x))


# --- activations ---------------------------------------------------------------------------------


@primitive("values", "device.sigmoid({x})", bounded=True)
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return torch.sigmoid(_tensor(x))


@primitive("values", "device.silu({x})", bounded=True)
def silu(x):
    """x * sigmoid(x), also called swish."""
    return torch.nn.functional.silu(_tensor(x))


@primitive("values", "device.gelu({x})", bounded=True)
def gelu(x):
    """x * Phi(x) with the exact normal distribution function (erf); Hendrycks and Gimpel 2016."""
    return torch.nn.functional.gelu(_tensor(x))


@primitive("values", "device.gelu_tanh({x})", bounded=True)
def gelu_tanh(x):
    """GELU in its tanh approximation: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return torch.nn.functional.gelu(_tensor(x), approximate="tanh")


@primitive("values", "device.max_nan({x}, Float32(0.0))", bounded=True)
def relu(x):
    """max(x, 0)."""
    return torch.relu(_tensor(x))


@primitive("values", "device.relu_sq({x})", bounded=True)
def relu_sq(x):
    """max(x, 0) squared; So et al. 2021 (Primer)."""
    return torch.relu(_tensor(x)) ** 2


@primitive("values", "device.softplus({x})", bounded=True)
def softplus(x):
    """log(1 + exp(x))."""
    return torch.logaddexp(_tensor(x), torch.zeros_like(_tensor(x)))


@primitive("values", "({cap} * cute.math.tanh({x} * cute.arch.rcp_approx({cap}), fastmath=True))")
def softcap(x, cap):
    """cap * tanh(x / cap): logits limited smoothly to (-cap, cap), as in Gemma 2."""
    return cap * torch.tanh(_tensor(x) / cap)


# --- derivatives, for backward kernels -------------------------------------------------------------


@primitive("values", "device.sigmoid_grad({x})", bounded=True)
def sigmoid_grad(x):
    """Derivative of sigmoid at x: s (1 - s)."""
    s = torch.sigmoid(_tensor(x))
    return s * (1 - s)


@primitive("values", "device.silu_grad({x})", bounded=True)
def silu_grad(x):
    """Derivative of silu at x: s + x s (1 - s) with s = sigmoid(x)."""
    s = torch.sigmoid(_tensor(x))
    return s + x * s * (1 - s)


@primitive("values", "device.gelu_grad({x})", bounded=True)
def gelu_grad(x):
    """Derivative of the exact GELU at x: Phi(x) + x phi(x)."""
    x = _tensor(x)
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@primitive("values", "device.gelu_tanh_grad({x})", bounded=True)
def gelu_tanh_grad(x):
    """Derivative of gelu_tanh at x."""
    x = _tensor(x)
    c = math.sqrt(2 / math.pi)
    t = torch.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


@primitive("values", "device.relu_grad({x})", bounded=True)
def relu_grad(x):
    """Derivative of relu at x: 1 where x > 0, else 0."""
    x = _tensor(x)
    return (x > 0).to(x.dtype)


@primitive("values", "device.relu_sq_grad({x})", bounded=True)
def relu_sq_grad(x):
    """Derivative of relu_sq at x: 2 max(x, 0)."""
    return 2 * torch.relu(_tensor(x))


@primitive("values", "device.tanh_grad({x})", bounded=True)
def tanh_grad(x):
    """Derivative of tanh at x: 1 - tanh(x)^2."""
    t = torch.tanh(_tensor(x))
    return 1 - t * t


def _tensor(x, like=None):
    if isinstance(x, torch.Tensor):
        return x
    dtype = like.dtype if isinstance(like, torch.Tensor) else torch.float64
    return torch.as_tensor(x, dtype=dtype, device=like.device if isinstance(like, torch.Tensor) else None)


def _pair(a, b):
    return _tensor(a, b), _tensor(b, a)
