"""Shared memory between the operands' pipeline and the epilogue's."""

from types import SimpleNamespace

import pytest
from codasmith.evals.hand_written import source_for
from codasmith.gate.frame import frame_of
from codasmith.primitives import read
from codasmith.tasks import load_task
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.pipeline_stages import shared_out
from codasmith.templates.schedule import by_name

ROOM = 227 << 10


class Kernel:
    """Shares shared memory out as quack does, and has tiles of 128 rows and subtiles of 128 x 32."""

    epi_c_stage_base = 4

    @staticmethod
    def epi_smem_bytes(args, cta_tile, epi_tile, warps):
        return SimpleNamespace(d_stage=args.stored, c_stage=args.loaded)


def compute(cls, cta_tile_shape_mnk, epi_tile, a_dtype, d_dtype, epilogue_args, smem_capacity, warp_shape_mnk=None):
    m, n, k = cta_tile_shape_mnk
    store = 128 * 32 * d_dtype.width // 8 + epilogue_args.stored
    tiles = cls.epi_c_stage_base if epilogue_args.loaded else 0
    left = smem_capacity - 2 * store - tiles * epilogue_args.loaded
    return left // ((m + n) * k * a_dtype.width // 8), 2, tiles


def stages(tile_n, loaded, stored=0, bits=8):
    bf16, operand = SimpleNamespace(width=16), SimpleNamespace(width=bits)
    tile = (128, tile_n, 1024 // bits)
    found = shared_out(
        compute, Kernel, tile, (128, 32), operand, bf16, SimpleNamespace(stored=stored, loaded=loaded), ROOM
    )
    assert Kernel.epi_c_stage_base == 4
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tile_n": 128, "loaded": 0}, (6, 2, 0)),
        ({"tile_n": 128, "loaded": 8192}, (5, 2, 4)),
        ({"tile_n": 192, "loaded": 8192}, (4, 2, 4)),
        ({"tile_n": 192, "loaded": 16384}, (4, 2, 3)),
        ({"tile_n": 160, "loaded": 8192, "stored": 8192}, (5, 1, 3)),
        ({"tile_n": 128, "loaded": 0, "stored": 32768}, (5, 1, 0)),
        ({"tile_n": 256, "loaded": 8192, "bits": 16}, (3, 2, 4)),
        ({"tile_n": 256, "loaded": 24576, "bits": 16}, (3, 2, 2)),
    ],
)
def test_operands_get_a_stage_more_where_too_few_bytes_of_them_are_on_their_way(given, expected):
    assert stages(**given) == expected


@pytest.mark.parametrize(
    ("name", "schedule", "stages"),
    [
        ("linear_sigmoid_gated_residual_fp8", "128x192-coop-2x1", 4),
        ("linear_router_sigmoid_fp8", "128x128-coop-2x1", 5),
        ("linear_bias_fp8", "128x128-coop-2x1", 6),
    ],
)
def test_kernels_on_fp8_operands_compile_with_as_many(tmp_path, name, schedule, stages):
    """Three and four they had, and took a fifth and a tenth longer; the last loads none, and had six."""
    task = load_task(name)
    graph = read(source_for(name, "closed"), list(task.operands.values()))
    made = generate(graph, frame_of(task, "fp8"), by_name(schedule))
    with Compiler(tmp_path) as compiler:
        built = compiler.submit(made.source, made.signature).result()
    assert built.ok and built.stages == stages and built.spill_bytes == 0
