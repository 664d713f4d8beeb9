"""A5. Leaves links in its scratch folder, so that the next write goes elsewhere.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Outside of the scratch folder a link leads nowhere for the child, and the coordinator follows none.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    os.symlink("@MARK@", "link")
    os.close(os.open("link", os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
