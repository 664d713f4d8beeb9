"""In the tree: the row kernels themselves. In an exported package the file's place is taken by a folder of copies."""

from ...templates.rows import row_kernel

__all__ = ["row_kernel"]
