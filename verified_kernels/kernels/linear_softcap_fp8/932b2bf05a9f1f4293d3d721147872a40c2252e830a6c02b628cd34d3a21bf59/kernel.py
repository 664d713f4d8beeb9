"""Smoothly limited logits."""
from codasmith.primitives import epilogue, softcap

@epilogue
def linear_softcap_fp8(acc, x_scale, w_scale, cap):
    acc = acc * x_scale * w_scale
    return {'y': softcap(acc, cap)}
