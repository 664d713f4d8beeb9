"""A5. Rewrites the answer when the process ends.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The compile child ends without exit handlers, and after it the object is linked and the answer checked.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
atexit = modules["atexit"]
os = modules["os"]
def last_words():
    with os.fdopen(os.open("@MARK@", os.O_CREAT | os.O_WRONLY), "w") as mark:
        mark.write("ran")


atexit.register(last_words)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
