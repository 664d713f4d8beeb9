"""`--out FILE`: whether it can be written is known before anything is measured, and not after."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def out_file(text: str) -> Path:
    """For argparse. Its folder is there, and the file is no folder itself."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}; make it first, or name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written; name another file")
    return path
