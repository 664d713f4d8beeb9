"""The catalogue: the project's own tasks, one short file each, found by looking into this folder.

Each file imports from `codasmith.tasks` by its full name, as a task of yours does: copy one and change it.
Shapes that are timed: M = N = K of 2048, 4096 and 8192 as in the CODA paper (arXiv 2605.19269), and layers
of real models (Llama 3, Qwen 3, Mistral, gpt-oss) at 8192 or 16384 tokens.
"""
