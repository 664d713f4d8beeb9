"""B4. Imports the task to call its reference.

task: rmsnorm_scale
tier: closed
expect: read: import
why: Nothing of Codasmith but the primitives can be imported.
"""

from codasmith.tasks import load_task
from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": load_task(acc, rstd)}
