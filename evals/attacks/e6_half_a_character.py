"""E6. An error with half a character in it, which no journal can write, and codes that clear the terminal.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: A report that could not be written down again is none.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

os = typing.sys.modules["os"]
with typing.sys.modules["io"].FileIO("report.json", "w") as report:
    report.write(b'{"ok": false, "seconds": NaN, "error": "\\u001b[2J \\ud800"}')
os._exit(0)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
