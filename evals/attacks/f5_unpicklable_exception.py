"""F5. Raises an exception that does not pickle.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: Only text crosses to the coordinator.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

class Awkward(Exception):
    def __init__(self, first, second):
        super().__init__("awkward")
        self.block = lambda: None


raise Awkward(1, 2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
