"""Row scale, column scale, bias."""

from codasmith.primitives import epilogue


@epilogue
def linear_scale_bias(acc, row_scale, col_scale, bias):
    return {"y": acc * row_scale * col_scale + bias}
