"""Honest candidates: the catalogue's mathematics in other words than the kernels by hand use. None may be refused.

Each is a task, the parameters after `acc`, and the function's body; `source` makes the file of it.
"""

from __future__ import annotations

import re

from ..primitives import REGISTRY

OTHER_WORDS: tuple[tuple[str, str, str], ...] = (
    ("linear_bias", "bias", 'return {"y": bias + acc}'),
    ("linear_bias", "bias", 'return {"y": acc - (-bias)}'),
    ("linear_bias", "bias", 'y = 0.5 * acc + 0.5 * bias\nreturn {"y": y + y}'),
    ("linear_bias_residual", "bias, residual", 'return {"y": (residual + bias) + acc}'),
    ("linear_bias_residual", "bias, residual", 'return {"y": acc + bias + residual}'),
    ("linear_lora", "delta, scale", 'return {"y": delta * scale + acc}'),
    ("linear_alpha_beta_residual", "residual, alpha, beta", 'return {"y": beta * residual - acc * -alpha}'),
    ("linear_alpha_beta_residual", "residual, alpha, beta", 'a = acc * alpha\nreturn {"y": a + residual * beta}'),
    ("linear_scale_bias", "row_scale, col_scale, bias", 'return {"y": bias + col_scale * (row_scale * acc)}'),
    ("linear_scale_bias", "row_scale, col_scale, bias", 's = row_scale * col_scale\nreturn {"y": s * acc + bias}'),
    ("rmsnorm_scale", "rstd", 'return {"y": rstd * acc}'),
    ("rmsnorm_scale", "rstd", 'return {"y": acc / (1.0 / rstd)}'),
    ("rmsnorm_scale", "rstd", 'return {"y": where(acc > 0.0, acc * rstd, rstd * acc)}'),
    ("linear_sigmoid", "", 'return {"y": 1.0 / (1.0 + exp(-acc))}'),
    ("linear_sigmoid", "", 'return {"y": 0.5 + 0.5 * tanh(0.5 * acc)}'),
    ("linear_sigmoid", "", 'return {"y": 1.0 - sigmoid(-acc)}'),
    ("linear_silu", "", 'return {"y": acc * sigmoid(acc)}'),
    ("linear_silu", "", 'return {"y": acc / (1.0 + exp(-acc))}'),
    ("linear_silu", "", 'half = 0.5 * acc\nreturn {"y": half + half * tanh(half)}'),
    ("linear_bias_silu", "bias", 'y = bias + acc\nreturn {"y": sigmoid(y) * y}'),
    ("linear_bias_silu", "bias", 'y = acc + bias\nreturn {"y": y - y * sigmoid(-y)}'),
    ("linear_bias_gelu", "bias", 'y = acc + bias\nreturn {"y": 0.5 * y * (1.0 + erf(y * 0.7071067811865476))}'),
    ("linear_bias_gelu", "bias", 'y = acc + bias\nhalf = 0.5 * y\nreturn {"y": half + half * erf(y * 0.5**0.5)}'),
    (
        "linear_bias_gelu_tanh",
        "bias",
        "y = acc + bias\nt = tanh(0.7978845608028654 * (y + 0.044715 * y * y * y))\n"
        'return {"y": 0.5 * y * (1.0 + t)}',
    ),
    (
        "linear_bias_gelu_tanh",
        "bias",
        'y = acc + bias\nreturn {"y": y * sigmoid(1.5957691216057308 * y * (1.0 + 0.044715 * y * y))}',
    ),
    ("linear_bias_relu_sq", "bias", 'y = relu(acc + bias)\nreturn {"y": y * y}'),
    ("linear_bias_relu_sq", "bias", 'y = maximum(acc + bias, 0.0)\nreturn {"y": y**2}'),
    ("linear_bias_relu_sq", "bias", 'y = acc + bias\nreturn {"y": where(y > 0.0, y * y, 0.0)}'),
    ("linear_bias_softplus", "bias", 'y = acc + bias\nreturn {"delta": maximum(y, 0.0) + log(1.0 + exp(-abs(y)))}'),
    ("linear_clamp", "low, high", 'return {"y": minimum(maximum(acc, low), high)}'),
    ("linear_clamp", "low, high", 'y = where(acc < low, low, acc)\nreturn {"y": where(y > high, high, y)}'),
    ("linear_softcap", "cap", 'return {"y": cap * tanh(acc / cap)}'),
    ("linear_softcap", "cap", 'y = acc * (1.0 / cap)\nreturn {"y": tanh(y) * cap}'),
    ("linear_silu_gate", "o", 'return {"y": acc * o * sigmoid(acc)}'),
    ("linear_gated_residual", "residual, gate, bias", 'return {"y": gate * acc + (gate * bias + residual)}'),
    ("linear_adaln", "mean, rstd, u, v", 'return {"y": acc * rstd - mean * rstd * u + v}'),
    ("linear_adaln", "mean, rstd, u, v", 'y = v + rstd * acc\nreturn {"y": y - (rstd * mean) * u}'),
    ("layernorm_gelu", "mean, rstd, u, v", 'y = rstd * acc - rstd * mean * u + v\nreturn {"y": gelu(y)}'),
    ("rmsnorm_swiglu", "rstd", 'g, u = unpack(acc)\nreturn {"o": silu(g * rstd) * (u * rstd)}'),
    ("rmsnorm_swiglu", "rstd", 'g, u = unpack(rstd * acc)\nreturn {"o": u * g * sigmoid(g)}'),
    ("rmsnorm_swiglu", "rstd", 'g, u = unpack(acc)\nx = g * rstd\nreturn {"o": u * rstd * x / (1.0 + exp(-x))}'),
    ("linear_swiglu_o", "", 'g, u = unpack(acc)\nreturn {"o": g * sigmoid(g) * u}'),
    ("linear_swiglu", "", 'gate, up = unpack(acc)\nreturn {"o": up * silu(gate), "z": pack(gate, up)}'),
    ("linear_reglu", "", 'gate, up = unpack(acc)\nreturn {"o": where(gate > 0.0, gate, 0.0) * up}'),
    ("linear_reglu", "", 'gate, up = unpack(acc)\nreturn {"o": maximum(gate, 0.0) * up}'),
    ("linear_geglu_bias", "bias", 'y = acc + bias\na, b = unpack(y)\nreturn {"o": b * gelu_tanh(a)}'),
    (
        "linear_rope",
        "table",
        'c, s = unpack(table)\nx, y = unpack(acc)\nreturn {"y": pack(x * c - y * s, y * c + x * s)}',
    ),
    (
        "linear_bias_rope",
        "bias, table",
        'c, s = unpack(table)\nx, y = unpack(acc + bias)\nreturn {"y": pack(x * c - y * s, x * s + y * c)}',
    ),
    (
        "linear_router_sigmoid",
        "correction",
        's = 1.0 / (1.0 + exp(-acc))\nreturn {"score": s, "chosen_by": correction + s}',
    ),
    ("linear_row_dot", "y", 'return {"grad_y": acc, "ydy": row_sum(acc, y)}'),
    ("linear_row_dot", "y", 'return {"grad_y": acc, "ydy": row_sum(acc * y)}'),
    ("linear_row_absmax", "bias", 'y = bias + acc\nreturn {"absmax": row_absmax(-y), "y": y}'),
    ("linear_col_absmax", "bias", 'y = bias + acc\nreturn {"absmax": col_absmax(abs(y)), "y": y}'),
    ("moe_down_weighted", "bias, router", 'return {"y": acc * router + bias * router}'),
    (
        "linear_logprob",
        "inverse_temperature, target",
        'z = inverse_temperature * acc\n'
        'return {"lse": row_lse(z), "target_logit": select(acc * inverse_temperature, target)}',
    ),
    ("linear_zloss", "bias", 'z = bias + acc\nreturn {"lse": row_lse(z + 0.0), "logits": z}'),
    ("gelu_bwd_bias_grad", "pre", 'return {"dx": gelu_grad(pre) * acc, "dbias": col_sum(gelu_grad(pre), acc)}'),
    ("gelu_bwd_bias_grad", "pre", 'g = gelu_grad(pre)\nreturn {"dbias": col_sum(acc, g), "dx": acc * g}'),
    ("linear_bias", "bias", 'return {"y": maximum(acc + bias, 0.0) + minimum(acc + bias, 0.0)}'),
    ("linear_bias", "bias", 'y = acc + bias\nreturn {"y": relu(y) - relu(-y)}'),
    ("linear_bias", "bias", 'return {"y": where(acc > -bias, acc + bias, -((-acc) - bias))}'),
    ("linear_sigmoid", "", 'return {"y": exp(-softplus(-acc))}'),
    ("linear_sigmoid", "", 'e = exp(-abs(acc))\nreturn {"y": where(acc >= 0.0, 1.0, e) / (1.0 + e)}'),
    ("linear_silu", "", 'return {"y": relu(acc) - abs(acc) * (1.0 - sigmoid(abs(acc)))}'),
    (
        "linear_bias_gelu",
        "bias",
        'y = acc + bias\nreturn {"y": relu(y) - 0.5 * abs(y) * (1.0 - erf(abs(y) * 0.70710678))}',
    ),
    (
        "linear_bias_gelu_tanh",
        "bias",
        "y = bias + acc\np = y * (0.7978845608 + 0.0356774081 * y * y)\n"
        'return {"y": y - y / (1.0 + exp(2.0 * p))}',
    ),
    ("linear_bias_softplus", "bias", 'y = acc + bias\nreturn {"delta": relu(y) + softplus(-abs(y))}'),
    (
        "linear_bias_softplus",
        "bias",
        'y = acc + bias\nreturn {"delta": where(y > 20.0, y, log(1.0 + exp(minimum(y, 20.0))))}',
    ),
    ("linear_softcap", "cap", 'return {"y": cap * (2.0 * sigmoid(2.0 * acc / cap) - 1.0)}'),
    (
        "linear_softcap",
        "cap",
        "t = acc / cap\ne = exp(-2.0 * abs(t))\nr = (1.0 - e) / (1.0 + e)\n"
        'return {"y": where(t < 0.0, -r, r) * cap}',
    ),
    ("linear_clamp", "low, high", 'return {"y": low + relu(acc - low) - relu(acc - high)}'),
    ("rmsnorm_scale", "rstd", 'return {"y": acc * exp(log(rstd))}'),
    ("rmsnorm_scale", "rstd", 'a, b = unpack(acc)\nreturn {"y": pack(a * rstd, b * rstd)}'),
    (
        "linear_row_dot",
        "y",
        "a, b = unpack(acc)\nc, d = unpack(y)\n"
        'return {"grad_y": pack(a, b), "ydy": row_sum(a * c + b * d)}',
    ),
    (
        "linear_logprob",
        "inverse_temperature, target",
        "z = acc * inverse_temperature\n"
        'return {"lse": row_lse(z), "target_logit": row_sum(where(column_index(z) == target, z, 0.0))}',
    ),
    ("linear_row_absmax", "bias", 'y = acc + bias\nreturn {"y": y, "absmax": row_max(maximum(y, -y))}'),
    ("rmsnorm_swiglu", "rstd", 'g, u = unpack(acc * rstd)\nreturn {"o": 0.5 * g * u * (1.0 + tanh(0.5 * g))}'),
    ("linear_reglu", "", 'g, u = unpack(acc)\nreturn {"o": 0.5 * (g + abs(g)) * u}'),
    (
        "linear_rope",
        "table",
        "c, s = unpack(table)\nx, y = unpack(acc)\n"
        'return {"y": pack((x + y) * c - y * (c + s), (x + y) * s + y * (c - s))}',
    ),
    ("linear_adaln", "mean, rstd, u, v", 'return {"y": rstd * (acc - mean * u) + v}'),
    ("linear_bias_relu_sq", "bias", 'y = acc + bias\nreturn {"y": 0.5 * y * (y + abs(y))}'),
    (
        "gelu_bwd_bias_grad",
        "pre",
        "phi = 0.3989422804014327 * exp(-0.5 * pre * pre)\n"
        "g = 0.5 * (1.0 + erf(0.7071067811865476 * pre)) + pre * phi\n"
        'return {"dx": acc * g, "dbias": col_sum(acc * g)}',
    ),
    ("linear_lora", "delta, scale", 'return {"y": scale * (delta + acc / scale)}'),
    ("linear_alpha_beta_residual", "residual, alpha, beta", 'return {"y": alpha * (acc + residual * (beta / alpha))}'),
)  # fmt: skip


def source(parameters: str, body: str) -> str:
    """A candidate file."""
    names = sorted({n for n in re.findall(r"\b([a-z_]+)\(", body) if n in REGISTRY})
    imports = f"from codasmith.primitives import {', '.join(['epilogue', *names])}"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{imports}\n\n\n@epilogue\ndef mine({', '.join(filter(None, ['acc', parameters]))}):\n{lines}\n"


def other_words() -> list[tuple[str, str]]:
    """Task and file of each."""
    return [(task, source(parameters, body)) for task, parameters, body in OTHER_WORDS]
