"""E2. Leaves a sitecustomize.py beside the installed packages.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Nothing outside the scratch folder can be written.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
inspect = modules["inspect"]
try:
    folder = os.path.dirname(os.path.dirname(inspect.getfile(modules["torch"])))
    os.close(os.open(os.path.join(folder, "sitecustomize_attack.py"), os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
