"""control. A right kernel that does much beside its work.

task: rmsnorm_scale
tier: closed
expect: checked
why: Nothing is wrong with it; its tax says what it costs.
"""

from codasmith.primitives import epilogue, exp, where


@epilogue
def slow(acc, rstd):
    y = acc * rstd
    y = where(exp(y * y * -0.11) > 2.0, acc, y)
    y = where(exp(y * y * -0.12) > 2.0, acc, y)
    y = where(exp(y * y * -0.13) > 2.0, acc, y)
    y = where(exp(y * y * -0.14) > 2.0, acc, y)
    y = where(exp(y * y * -0.15) > 2.0, acc, y)
    y = where(exp(y * y * -0.16) > 2.0, acc, y)
    y = where(exp(y * y * -0.17) > 2.0, acc, y)
    y = where(exp(y * y * -0.18) > 2.0, acc, y)
    y = where(exp(y * y * -0.19) > 2.0, acc, y)
    y = where(exp(y * y * -0.20) > 2.0, acc, y)
    y = where(exp(y * y * -0.21) > 2.0, acc, y)
    y = where(exp(y * y * -0.22) > 2.0, acc, y)
    y = where(exp(y * y * -0.23) > 2.0, acc, y)
    y = where(exp(y * y * -0.24) > 2.0, acc, y)
    y = where(exp(y * y * -0.25) > 2.0, acc, y)
    y = where(exp(y * y * -0.26) > 2.0, acc, y)
    y = where(exp(y * y * -0.27) > 2.0, acc, y)
    y = where(exp(y * y * -0.28) > 2.0, acc, y)
    y = where(exp(y * y * -0.29) > 2.0, acc, y)
    y = where(exp(y * y * -0.30) > 2.0, acc, y)
    return {"y": y}
