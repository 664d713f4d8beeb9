"""F2. A missing key.

task: linear_lse
tier: cutedsl
expect: compile: missing-output
why: The compiler's bare KeyError becomes a finding.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import OnlineLSEReduce

MAIN = "logits"


@gemm_epilogue(outs={"lse": OnlineLSEReduce("lse")})
def epilogue(acc):
    return {"D": acc}
