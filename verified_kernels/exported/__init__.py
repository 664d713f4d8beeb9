"""What an exported kernel brings along to run without this package: its own signature reader, chooser and operator.

These files are copied beside `templates/launch.py`, `bound.py` and `link.py`, and for a program beside the row kernels
that it uses; they import torch, tvm_ffi and each other alone.
"""
