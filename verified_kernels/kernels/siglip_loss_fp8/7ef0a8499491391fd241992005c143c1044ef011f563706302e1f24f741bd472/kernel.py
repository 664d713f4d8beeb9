"""Softplus of signed logits, summed along rows."""
from codasmith.primitives import column_index, epilogue, row_index, row_sum, softplus, where

@epilogue
def siglip_loss_fp8(acc, x_scale, w_scale, temperature, bias):
    acc = acc * x_scale * w_scale
    logits = acc * temperature + bias
    signed = where(row_index(acc) == column_index(acc), -logits, logits)
    return {'loss': row_sum(softplus(signed))}
