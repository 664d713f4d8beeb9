"""In the tree: the launcher itself. In an exported package the file's place is taken by a copy of that."""

from ...templates.launch import TORCH_DTYPES, Kernel, bind, refuse

__all__ = ["TORCH_DTYPES", "Kernel", "bind", "refuse"]
