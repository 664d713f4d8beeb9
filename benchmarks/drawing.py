"""matplotlib, without a screen, for the scripts that draw."""

from __future__ import annotations

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
