"""Low-rank update, scaled by row."""
from codasmith.primitives import epilogue

@epilogue
def linear_lora_fp8(acc, x_scale, w_scale, delta, scale):
    acc = acc * x_scale * w_scale
    return {'y': acc + scale * delta}
