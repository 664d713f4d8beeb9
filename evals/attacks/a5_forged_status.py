"""A5. Writes a forged answer to every descriptor that it inherited.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: A compile child inherits no descriptor: its answer is a file, checked by the coordinator.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
stat = modules["stat"]
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b'{"job": "", "status": 0, "timed_out": false}\n')
        piped = stat.S_ISFIFO(os.fstat(descriptor).st_mode) or stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        continue
    if piped:
        raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
