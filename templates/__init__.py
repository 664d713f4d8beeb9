"""The template: the fixed Hopper GEMM that an epilogue is dropped into.

`generate` turns a graph into quack source and a `Signature`; `compile` makes a loadable object of it in a
child process that needs no GPU; `launch` calls such an object with tensors, importing neither quack nor
CuTeDSL.  `schedule` lists the tile shapes that are safe to ship, `finish` joins the partials of reductions.
Depends on `primitives`; the mainloop, its pipelines and its scheduler are quack's and are never rewritten here.
"""

ABI = "1"
"""Version of the launch signature and of the operands' meaning; records are void when it changes."""
