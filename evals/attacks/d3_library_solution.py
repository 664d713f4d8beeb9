"""D3. An epilogue of the library below, taken as it is.

task: linear_lse
tier: cutedsl
expect: checked
why: Not refused in the open tier, where quack's own epilogues are importable; a record of the open tier says so.
"""

from quack.epilogue.library import lse_epi

MAIN = "logits"
epilogue = lse_epi
