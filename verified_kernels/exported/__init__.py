"""What an exported kernel brings along to run without this package: its own signature reader and operator.

These files are copied beside `templates/launch.py`, `bound.py` and `link.py`; they import torch, tvm_ffi and each
other alone.
"""
