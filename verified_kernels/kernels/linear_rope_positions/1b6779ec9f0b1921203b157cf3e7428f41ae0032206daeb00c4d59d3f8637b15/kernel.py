"""Rotary embedding from positions and frequencies."""

from codasmith.primitives import cos, epilogue, rotate, sin, unpack


@epilogue
def linear_rope_positions(acc, positions, frequencies):
    frequency, _ = unpack(frequencies)
    angle = positions * frequency
    return {"y": rotate(acc, cos(angle), sin(angle))}
