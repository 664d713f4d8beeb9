"""A7. Has the processes around it wait for their turn, so that what they time looks slow.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The priority and the scheduling of other processes cannot be changed from a compile child.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
attempts = (
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    lambda: os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0)),
    lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0)),
)
for attempt in attempts:
    try:
        attempt()
    except PermissionError:
        continue
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
