"""Programs: tasks of several stages, one short file each, found by looking into this folder.

A forward program that trains has a backward one, called like it with `_bwd`, and leaves what that reads among its
outputs: gate and up in turn (z), what a GELU was applied to (pre), statistics of norms (rstd), a projection before its
norm (q), logits.  Weights' gradients come in the storage dtype, those of norms' weights and biases in float32.
`verified_kernels.modules.state_dict` goes between the order of these weights and that of checkpoints.

Shapes that are timed: the blocks of the CODA paper (arXiv 2605.19269) with d = 2048 and 4096 at 16,384 tokens and its
vocabulary of 32,768, and layers of real models: Llama 3 8B (d 4096, F 14336, 48 heads of 128 in all, vocabulary
128,256), Qwen 3 1.7B (d 2048, 32 heads in all, vocabulary 151,936) and 8B (d 4096, 48 heads in all), GPT-2 medium and
XL, GPT-J (MLPs of 1024, 1600 and 4096).
"""
