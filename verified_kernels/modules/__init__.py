"""`nn.Module`s whose products run as verified operators, with the layout of their checkpoints kept.

    from codasmith.verified_kernels.modules import SwiGLUMLP
    mlp = SwiGLUMLP(4096, 14336, device="cuda", dtype=torch.bfloat16)

Where no kernel may run, the operator's reference does.  Weights that a kernel reads as one operand live in one
parameter, so that no call copies them; state dicts hold them apart and in the usual order, as everyone's do.
"""

from .gelu import GELUMLP
from .llama import LlamaBlock, LlamaLayers, LlamaShape
from .loss import LinearCrossEntropy
from .qknorm import QKNormRoPE
from .swiglu import RMSNormSwiGLUMLP, SwiGLUMLP

__all__ = [
    "GELUMLP",
    "LinearCrossEntropy",
    "LlamaBlock",
    "LlamaLayers",
    "LlamaShape",
    "QKNormRoPE",
    "RMSNormSwiGLUMLP",
    "SwiGLUMLP",
]
