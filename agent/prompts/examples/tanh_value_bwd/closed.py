from codasmith.primitives import epilogue, pack, tanh, unpack


@epilogue
def tanh_value_bwd(acc, z):
    value, gate = unpack(z)
    t = tanh(gate)
    return {"dz": pack(acc * t, acc * value * (1.0 - t * t))}
