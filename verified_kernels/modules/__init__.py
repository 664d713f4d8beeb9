"""`nn.Module`s whose products run as verified operators, with the layout of their checkpoints kept.

    from codasmith.verified_kernels.modules import SwiGLUMLP
    mlp = SwiGLUMLP(4096, 14336, device="cuda", dtype=torch.bfloat16)

Each takes [..., hidden] and returns the same shape.  Where no kernel may run, the operator's reference does;
gradients are the operator's.  Weights for the two halves of a gated layer live in one parameter, so that no
call copies them; state dicts hold them apart, as everyone's do.
"""

from .gelu import GELUMLP
from .swiglu import RMSNormSwiGLUMLP, SwiGLUMLP

__all__ = ["GELUMLP", "RMSNormSwiGLUMLP", "SwiGLUMLP"]
