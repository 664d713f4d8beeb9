"""The page of primitives that a prompt shows."""

import codasmith.primitives as primitives
from codasmith.primitives import REGISTRY, render_reference


def test_the_whole_page_names_every_primitive_with_its_parameters():
    page = render_reference(None)
    for p in REGISTRY.values():
        written = p.name in ("add", "sub", "mul", "div", "neg", "lt", "le", "gt", "ge", "eq", "ne")
        if not written and not p.name.startswith("logical"):
            assert f"- `{p.name}({p.parameters[0]}" in page
            assert p.doc.split(".")[0].split("\n")[0] in page
    for operator in ("a + b", "a / b", "-x", "a >= b", "a & b", "x ** n"):
        assert operator in page


def test_low_levels_see_less():
    one, two, three = (render_reference(level) for level in (1, 2, 3))
    assert "silu(x)" in one and "unpack" not in one and "row_sum" not in one
    assert "unpack(x)" in two and "row_sum" not in two
    assert three == render_reference(None) == render_reference(5)


def test_every_primitive_can_be_imported_by_name():
    assert set(REGISTRY) <= set(primitives.__all__)
    for name, p in REGISTRY.items():
        assert getattr(primitives, name) is p.torch
    for name in primitives.__all__:
        assert getattr(primitives, name) is not None
