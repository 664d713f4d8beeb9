"""E2. Runs the package installer.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: No program can be started from a compile child.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
subprocess = modules["subprocess"]
try:
    subprocess.run([typing.sys.executable, "-m", "pip", "--version"], check=True)
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
