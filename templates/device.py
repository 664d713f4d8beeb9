"""The device side of primitives that are more than one instruction; called while a kernel is traced.

Accuracy is that of the approximate units (relative error near 2^-22) unless a line says otherwise.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32

_C = math.sqrt(2 / math.pi)
_LOG2E = math.log2(math.e)

_LOGIT = (1.59570405, 0.0728786465, -0.000228672107, -6.38651598e-05, 2.34669498e-06)
"""Of log(Phi(x) / Phi(-x)) as x times a polynomial in x^2: x Phi(x) is right to 3.5e-6, everywhere."""
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, 7.1.26: erfc(y) = t (a1 + t (a2 + ...)) exp(-y^2) with t = 1 / (1 + p y), to 1.5e-7."""
_LOG1P = (0.999998732, -0.499869659, 0.331094506, -0.235038637, 0.149223889, -0.0664017796, 0.0141410077)
"""log(1 + e) / e on [0, 1], to 1.3e-6 of its value."""


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


def exp2(x):
    """2^x; subnormal results are 0."""
    return cute.math.exp2(x, fastmath=True)


def _series(x, coefficients):
    total = Float32(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + Float32(c)
    return total


def sigmoid(x):
    """rcp(1 + exp(-x)): exp overflowing to infinity gives 0, as it should."""
    return cute.arch.rcp_approx(Float32(1.0) + exp2(x * Float32(-_LOG2E)))


def silu(x):
    return x * sigmoid(x)


def relu_sq(x):
    y = max_nan(x, Float32(0.0))
    return y * y


def gelu(x):
    """x sigmoid(log(Phi(x) / Phi(-x))), ten instructions; by erf they are 23."""
    return x * cute.arch.rcp_approx(Float32(1.0) + exp2(x * _series(x * x, [-_LOG2E * c for c in _LOGIT])))


def _tanh_argument(x):
    return x * (Float32(_C) + Float32(_C * 0.044715) * (x * x))


def gelu_tanh(x):
    """The tanh unit's relative error is near 2^-11."""
    h = Float32(0.5) * x
    return h + h * cute.math.tanh(_tanh_argument(x), fastmath=True)


def softplus(x):
    """max(x, 0) + log(1 + e) with e = exp(-|x|), the logarithm as e times a polynomial: exact in proportion far below
    zero too, where 1 + e would round e away."""
    e = exp2(cute.math.abs(x) * Float32(-_LOG2E))
    return e * _series(e, _LOG1P) + max_nan(x, Float32(0.0))


def sigmoid_grad(x):
    """e / (1 + e)^2 with e = exp(-|x|): s - s s would round to nothing far above zero."""
    e = exp2(cute.math.abs(x) * Float32(-_LOG2E))
    r = cute.arch.rcp_approx(Float32(1.0) + e)
    return e * r * r


def silu_grad(x):
    s = sigmoid(x)
    return s + x * s * (Float32(1.0) - s)


def gelu_grad(x):
    """Below zero h = Phi(-|x|) - |x| phi(x), which share the exponential; above it 1 - h."""
    y = cute.math.abs(x)
    t = cute.arch.rcp_approx(y * Float32(_P / math.sqrt(2)) + Float32(1.0))
    tail = t * _series(t, [0.5 * a for a in _A])
    h = (tail - y * Float32(1 / math.sqrt(2 * math.pi))) * exp2(x * x * Float32(-0.5 * _LOG2E))
    return Float32(cutlass.select_(x > Float32(0.0), Float32(1.0) - h, h))


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
