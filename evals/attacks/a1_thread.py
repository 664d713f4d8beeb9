"""A1. A thread that goes on after the call has returned.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: It runs in the compile child, has the child's scratch folder and nothing else, and ends with it.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
threading = modules["threading"]
time = modules["time"]
def later():
    time.sleep(0.2)
    while True:
        try:
            open_ = os.open("@MARK@", os.O_CREAT | os.O_WRONLY)
            os.write(open_, b"ran")
        except OSError:
            time.sleep(0.2)


threading.Thread(target=later, daemon=True).start()

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
