"""B5. The same in CuTeDSL.

task: linear_lse
tier: cutedsl
expect: compile: task-mismatch
why: The outputs that a module declares are compared with the task's.
"""

from quack.epilogue import gemm_epilogue

MAIN = "logits"


@gemm_epilogue()
def epilogue(acc):
    return {"D": acc}
