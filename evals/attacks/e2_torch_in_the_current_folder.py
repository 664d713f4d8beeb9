"""E2. Leaves a torch.py where Python looks first.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The scratch folder is removed, and no process of the gate imports from the current folder.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
with os.fdopen(os.open("torch.py", os.O_CREAT | os.O_WRONLY), "w") as file:
    file.write("open('@MARK@', 'w')")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
