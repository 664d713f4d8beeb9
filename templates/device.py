"""The device side of primitives that are more than one instruction; called while a kernel is traced.

Accuracy is that of the approximate units (relative error near 2^-22) unless a line says otherwise.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32

_RSQRT2 = 1 / math.sqrt(2)
_C = math.sqrt(2 / math.pi)


def max_nan(a, b):
    """The larger; NaN if either is NaN, as torch.maximum."""
    return cute.arch.fmax(a, b, nan=True)


def min_nan(a, b):
    """The smaller; NaN if either is NaN."""
    return cute.arch.fmin(a, b, nan=True)


def both(a, b):
    """Logical and of two conditions."""
    return cutlass.and_(a, b)


def either(a, b):
    """Logical or of two conditions."""
    return cutlass.or_(a, b)


def sigmoid(x):
    """rcp(1 + exp(-x)): exp overflowing to infinity gives 0, as it should."""
    return cute.arch.rcp_approx(Float32(1.0) + cute.math.exp(-x, fastmath=True))


def silu(x):
    return x * sigmoid(x)


def relu_sq(x):
    y = max_nan(x, Float32(0.0))
    return y * y


def gelu(x):
    h = Float32(0.5) * x
    return h + h * cute.math.erf(x * Float32(_RSQRT2))


def _tanh_argument(x):
    return x * (Float32(_C) + Float32(_C * 0.044715) * (x * x))


def gelu_tanh(x):
    """The tanh unit's relative error is near 2^-11."""
    h = Float32(0.5) * x
    return h + h * cute.math.tanh(_tanh_argument(x), fastmath=True)


def softplus(x):
    """Far below zero it is exp(x), which 1 + exp(x) would round away: there three terms of the series of log(1 + e)."""
    e = cute.math.exp(-cute.math.abs(x), fastmath=True)
    series = e - e * e * (Float32(0.5) - Float32(1 / 3) * e)
    whole = cute.math.log(Float32(1.0) + e, fastmath=True)
    return max_nan(x, Float32(0.0)) + Float32(cutlass.select_(e < Float32(2.0**-7), series, whole))


def sigmoid_grad(x):
    """e / (1 + e)^2 with e = exp(-|x|): s - s s would round to nothing far above zero."""
    e = cute.math.exp(-cute.math.abs(x), fastmath=True)
    r = cute.arch.rcp_approx(Float32(1.0) + e)
    return e * r * r


def silu_grad(x):
    s = sigmoid(x)
    return s + x * s * (Float32(1.0) - s)


def gelu_grad(x):
    pdf = Float32(1 / math.sqrt(2 * math.pi)) * cute.math.exp(Float32(-0.5) * x * x, fastmath=True)
    return Float32(0.5) + Float32(0.5) * cute.math.erf(x * Float32(_RSQRT2)) + x * pdf


def gelu_tanh_grad(x):
    t = cute.math.tanh(_tanh_argument(x), fastmath=True)
    slope = Float32(_C) + Float32(3 * _C * 0.044715) * (x * x)
    return Float32(0.5) + Float32(0.5) * t + Float32(0.5) * x * (Float32(1.0) - t * t) * slope


def relu_grad(x):
    return Float32(cutlass.select_(x > Float32(0.0), Float32(1.0), Float32(0.0)))


def relu_sq_grad(x):
    return Float32(2.0) * max_nan(x, Float32(0.0))


def tanh_grad(x):
    """Four times the sigmoid's derivative at 2 x: 1 - t t would be the error of the tanh unit and no more."""
    return Float32(4.0) * sigmoid_grad(Float32(2.0) * x)
