"""Rotary embedding from positions and frequencies."""
from codasmith.primitives import cos, epilogue, rotate, sin, unpack

@epilogue
def linear_rope_positions_fp8(acc, x_scale, w_scale, positions, frequencies):
    acc = acc * x_scale * w_scale
    frequency, _ = unpack(frequencies)
    angle = positions * frequency
    return {'y': rotate(acc, cos(angle), sin(angle))}
