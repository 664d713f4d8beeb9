"""docs/using.md: every block of Python in it is short and runs, as it stands on a GPU and smaller on a CPU."""

import importlib.util
import json
import re
import shlex
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from codasmith.verified_kernels import OutsideDomain, store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "using.md").read_text()
SHIPPED = Path(store.__file__).parent / "kernels"
SMALLER = {
    **{"8192": "256", "28672": "128", "4096": "64", "14336": "96", "128256": "40"},
    **{"num_attention_heads=32": "num_attention_heads=4", "num_key_value_heads=8": "num_key_value_heads=2"},
}
ON_CPU = {'"cuda"': '"cpu"', ".cuda()": ""}


def blocks():
    """By heading (a second one under it with a number behind), the lines of Python."""
    found, heading, lines = {}, "", None
    for line in PAGE.splitlines():
        if lines is not None:
            if line == "```":
                found[next(t for t in (heading, f"{heading} 2", f"{heading} 3") if t not in found)] = lines
                lines = None
            else:
                lines.append(line)
        elif line == "```python":
            lines = []
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    return found


BLOCKS = blocks()
TURNS = """
turns = torch.outer(torch.arange(16), torch.linspace(1, 0.1, shape.hidden_size // shape.num_attention_heads // 2))
x = torch.randn(2, 16, shape.hidden_size, device="cuda", dtype=torch.bfloat16)
cos, sin = (f(turns).repeat(1, 2).to(x) for f in (torch.cos, torch.sin))
"""
TINY = "dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)"
MODEL = f"""
import torch, transformers
name, tiny = "tiny", {TINY}
transformers.LlamaForCausalLM(transformers.LlamaConfig(**tiny, num_key_value_heads=2)).save_pretrained(name)
"""
BEFORE = {
    "fp8 operands": ["An operator"],
    "In a CUDA graph": ["An operator", "another = torch.randn_like(x); rstd = torch.ones(8192, device='cuda')"],
    "Batch invariance": ["An operator", "rstd = torch.ones(8192, device='cuda')"],
    "Safety, in code": ["An operator", "rstd = torch.ones(8192, device='cuda')"],
    "Modules": [
        "import torch\nfrom torch import nn\n"
        "state = {n: torch.randn(14336, 4096) for n in ('gate_proj.weight', 'up_proj.weight')}\n"
        "state['down_proj.weight'] = torch.randn(4096, 14336)\n"
        "x = torch.randn(4, 4096, device='cuda', dtype=torch.bfloat16)"
    ],
    "A Llama block, and a stack of them": [
        "import torch\nfrom codasmith.verified_kernels.modules import LlamaBlock, LlamaLayers, LlamaShape\n"
        "shape = LlamaShape(4096, 14336, num_attention_heads=32, num_key_value_heads=8)\n"
        "state = LlamaLayers(LlamaBlock(shape, i) for i in range(2)).state_dict()" + TURNS
    ],
    "QK-norm with rotary embedding": ["A Llama block, and a stack of them"],
    "The order of weights": [
        "import torch\ngiven = {f'{n}_proj.weight': torch.randn(512, 8) for n in 'qkv'}\n"
        "given['q_norm.weight'], turns = torch.randn(128), torch.rand(5, 64).repeat(1, 2)\n"
        "state, cos, sin = dict(given), turns.cos(), turns.sin()"
    ],
    "The loss": [
        "import torch\nhidden = torch.randn(16, 4096, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
        "target = torch.randint(0, 40, (16,), device='cuda')"
    ],
    "An existing model": [MODEL],
    "Several GPUs": ["An existing model", "model = AutoModelForCausalLM.from_pretrained(name)"],
    "A package of its own": ["An operator", "rstd = torch.ones(8192, device='cuda')"],
    "A package of its own 2": [
        "import torch\nfrom pathlib import Path\nfrom kernels import get_local_kernel\n"
        "x, w_up = (torch.randn(n, 64, device='cuda').bfloat16().requires_grad_() for n in (256, 128))\n"
        "w_down = torch.randn(64, 64, device='cuda').bfloat16()"
    ],
}
ELSEWHERE = {"Training": "test_train.py", "In a CUDA graph": "needs a GPU"}
"""What this file does not run on a CPU, and where it is tested or why not."""
AFTER = {
    "An operator": "assert o.shape == (8192, 14336)",
    "fp8 operands": "assert y.dtype == torch.bfloat16 and y.shape == (8192, 28672)",
    "Modules": "assert torch.equal(mlp.gate_up_weight[14336:].cpu(), state['up_proj.weight'].bfloat16())",
    "A Llama block, and a stack of them": "assert all(p.grad is not None for p in layers.parameters())",
    "QK-norm with rotary embedding": "assert q.shape[-2] == 32 and k.shape[-2] == 8",
    "The order of weights": (
        "assert all(torch.equal(state[k], v) for k, v in given.items()) and not torch.equal(pairs['q_norm.weight'], "
        "given['q_norm.weight']) and torch.equal(cos, turns.cos()) and torch.equal(sin, turns.sin())"
    ),
    "The loss": "assert head.weight.grad is not None and hidden.grad is not None",
    "An existing model": "assert type(model.model.layers).__name__ == 'ModuleList'",
    "Several GPUs": "assert type(next(model.parameters())).__name__ == 'DTensor'",
    "A package of its own": "assert o.shape == (8192, 14336)",
    "A package of its own 2": "assert x.grad is not None and w_up.grad is not None",
}


def program(title, change):
    """The blocks that come before it, the block, and what must hold then."""
    parts = [program(part, change)[0] if part in BLOCKS else change(part) for part in BEFORE.get(title, [])]
    return "\n".join([*parts, change("\n".join(BLOCKS[title]))]), change(AFTER.get(title, ""))


def smaller(text):
    text = text.replace("range(32)", "range(2)").replace("q.shape[-2] == 32", "q.shape[-2] == 4")
    text = text.replace("k.shape[-2] == 8", "k.shape[-2] == 2").replace("(8192, 14336)", "(256, 64)")
    for old, new in {**SMALLER, **ON_CPU, "'cuda'": "'cpu'"}.items():
        text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)
    return text


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, and the shipped kernels."""
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)
    monkeypatch.chdir(tmp_path)

    yield tmp_path
    if dist.is_initialized():
        dist.destroy_process_group()


def exported(title, monkeypatch):
    """Runs the command that the page gives before a package is loaded; a stand-in for the library that loads it."""
    if not title.startswith("A package"):
        return
    from codasmith.agent.cli import app
    from typer.testing import CliRunner

    name = "mlp_swiglu" if title.endswith("2") else "rmsnorm_swiglu"
    (command,) = re.findall(rf"codasmith (kernels export {name} --to packages)", PAGE)
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0, done.output

    def get_local_kernel(folder):
        build = folder / "build" / "torch-cuda"
        name = json.loads((build / "metadata.json").read_text())["id"]
        spec = importlib.util.spec_from_file_location(name, build / "__init__.py")
        monkeypatch.setitem(sys.modules, name, module := importlib.util.module_from_spec(spec))
        spec.loader.exec_module(module)
        return module

    monkeypatch.setitem(sys.modules, "kernels", types.SimpleNamespace(get_local_kernel=get_local_kernel))


def needed(title):
    if title in ("An existing model", "Several GPUs"):
        pytest.importorskip("transformers")
    if title == "Several GPUs":
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def test_every_block_is_under_ten_lines_and_known_here():
    assert len(BLOCKS) > 12 and {*BEFORE, *AFTER, *ELSEWHERE} <= set(BLOCKS)
    for title, lines in BLOCKS.items():
        assert 0 < sum(bool(line.strip()) for line in lines) < 10, title
        compile("\n".join(lines), title, "exec")


@pytest.mark.parametrize("title", [t for t in BLOCKS if t not in ELSEWHERE])
def test_a_block_runs_on_a_cpu(place, title, monkeypatch):
    needed(title)
    exported(title, monkeypatch)
    text, holds = program(title, smaller)
    space = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if title == "Batch invariance":
            with pytest.raises(OutsideDomain, match="the tensors are on cpu"):
                exec(compile(text, title, "exec"), space)
        else:
            exec(compile(f"{text}\n{holds}", title, "exec"), space)


@pytest.mark.gpu
@pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
)
@pytest.mark.parametrize("title", [t for t in BLOCKS if t not in ("Training", "Several GPUs")])
def test_a_block_runs_on_a_hopper_gpu(place, title, monkeypatch):
    needed(title)
    exported(title, monkeypatch)
    text, holds = program(title, lambda text: text.replace("range(32)", "range(2)"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*unfused reference")
        exec(compile(f"{text}\n{holds}", title, "exec"), {})
    torch.cuda.synchronize()
