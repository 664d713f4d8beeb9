"""B5. Leaves an output unwritten, so that what lies there from before counts.

task: linear_lse
tier: closed
expect: read: missing-output
why: Every output must be returned; on the GPU outputs are filled with NaN first.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc):
    return {"logits": acc}
