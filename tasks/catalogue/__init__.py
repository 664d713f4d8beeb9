"""The catalogue: the project's own tasks, one short file each, found by looking into this folder.

Each file imports from `codasmith.tasks` by its full name, as a task of yours does: copy one and change it.

Shapes that are timed: M = N = K of 2048, 4096 and 8192 for the kernels of the CODA paper (arXiv 2605.19269), where N is
three times as much for RoPE and 32768 for the cross-entropy; 4096 and 8192 for most others; and layers of real models
at 2048 to 16384 tokens:

| model | widths |
|---|---|
| Llama 3 8B, Mistral 7B | stream 4096, MLP 14336, queries, keys and values 6144; 128256 tokens (Llama) |
| Qwen3 8B, Qwen2.5 7B, Qwen3-Next | MLP 12288, 151936 tokens; queries 3584; attention 4096 on a stream of 2048 |
| Gemma 2 9B | stream 3584, MLP 14336, 256000 tokens |
| gpt-oss | stream and MLP 2880 |
| Nemotron-H 8B | MLP 21504 |
| DeepSeek-V3, GLM-4.5-Air | routers of 256 and 128 experts, streams 7168 and 4096 |
| GPT-2 XL, DiT-XL, SigLIP so400m, Whisper large, Falcon Mamba 7B | 1600 and 6400; 1152; 4304; 1280 and 5120; 8192 |

Correctness is checked elsewhere (`codasmith.tasks.domain`): one, 16 and 128 rows, ragged rows and columns, the
smallest legal width, depths that are no multiple of a tile.
"""
