"""matplotlib, without a screen, for the scripts that draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """Ends the program with a sentence where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("drawing needs matplotlib; pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def saved(figure: Any, image: Path, **how: Any) -> None:
    """Ends the program with a sentence where it cannot be written, or its ending names no kind of picture."""
    try:
        figure.savefig(image, **how)
    except (OSError, ValueError) as error:
        raise SystemExit(f"the picture cannot be written to {image}: {error}") from None
