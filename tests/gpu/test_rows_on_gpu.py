"""Row kernels on a GPU agree with their torch meaning in float64, in each dtype and at ragged sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from codasmith.templates.rows import NAMES

pytestmark = pytest.mark.gpu

AGREE = Path(__file__).parents[1] / "templates" / "rows_agree.py"


def test_every_row_kernel_agrees_with_its_meaning():
    done = subprocess.run(
        [sys.executable, str(AGREE), "cuda"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == list(NAMES)
