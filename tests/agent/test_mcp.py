"""The MCP server, through the SDK's own client: over stdio as users start it, and in this process with a fake gate."""

import os
import subprocess
import sys
from importlib.metadata import version

import anyio
import pytest
from codasmith import gate

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
from codasmith.agent.mcp_server import make_server
from mcp import Client, StdioServerParameters

EPILOGUE = "from codasmith.primitives import epilogue\n\n\n@epilogue\ndef f(acc, bias):\n    return {'y': %s}\n"
TOOLS = {"list_tasks", "read_task", "read_primitives", "check", "evaluate", "submit"}

MINE = """
from codasmith.tasks import Tensor, task


@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})
def my_own(x, w):
    '''Twice the product.'''
    return {"y": 2 * (x @ w.T)}
"""


def talk(server, conversation):
    """Run an async conversation with a server."""

    async def run():
        async with Client(server) as client:
            return await conversation(client)

    return anyio.run(run)


def text(result):
    return "".join(block.text for block in result.content)


@pytest.fixture
def here(monkeypatch, fake_gate):
    """The server in this process, on a machine with a GPU, and what was admitted."""
    from codasmith import verified_kernels

    class Entry:
        name = "linear_bias/abc"

    admitted = []
    monkeypatch.setitem(vars(gate), "evaluate", fake_gate)
    monkeypatch.setattr(gate, "has_gpu", lambda: True)
    monkeypatch.setitem(
        vars(verified_kernels), "admit", lambda e, t, author: admitted.append((e.source, t.name, author)) or Entry
    )
    return make_server(), admitted


def test_a_client_over_stdio_reads_a_task_and_has_candidates_checked(tmp_path):
    """The real command and the real gate, on candidates that are refused before anything is compiled."""
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME")} | {"CUDA_VISIBLE_DEVICES": ""}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "codasmith.agent", "mcp", str(mine)], env=env, cwd=str(tmp_path)
    )

    async def conversation(client):
        assert (client.server_info.name, client.server_info.version) == ("codasmith", version("codasmith"))
        assert {t.name for t in (await client.list_tools()).tools} == TOOLS
        tasks = (await client.call_tool("list_tasks", {})).structured_content["result"]
        assert {"linear_bias", "my_own"} <= {t["task"] for t in tasks}
        assert "Twice the product." in text(await client.call_tool("read_task", {"task": "my_own"}))
        words = text(await client.call_tool("read_primitives", {"task": "linear_bias"}))
        assert "silu" in words and "exactly one block" not in words
        unknown = await client.call_tool("check", {"task": "linear_bias", "source": EPILOGUE % "acc.T"})
        wrong = await client.call_tool("check", {"task": "linear_bias", "source": EPILOGUE % "acc - bias"})
        return (
            unknown.structured_content,
            wrong.structured_content,
            await client.call_tool("evaluate", {"task": "linear_bias", "source": EPILOGUE % "acc + bias"}),
        )

    unknown, wrong, evaluated = talk(command, conversation)
    assert unknown["status"] == wrong["status"] == "refused"
    assert 'refused at the stage "read"' in unknown["feedback"] and "line 6" in unknown["feedback"].lower()
    assert 'refused at the stage "interpret", output `y`' in wrong["feedback"]
    assert evaluated.is_error and "no Hopper GPU" in text(evaluated)


def test_what_passes_is_evaluated_and_admitted_only_when_it_is_submitted(here):
    server, admitted = here
    source = {"task": "linear_bias", "source": "x = 1  # tax=1.05 \n"}

    async def conversation(client):
        evaluated = (await client.call_tool("evaluate", source)).structured_content
        assert admitted == []
        return evaluated, (await client.call_tool("submit", source)).structured_content

    evaluated, submitted = talk(server, conversation)
    assert (evaluated["status"], evaluated["tax"]) == ("passed", 1.05)
    assert (submitted["status"], submitted["kernel"]) == ("admitted", "linear_bias/abc")
    ((kept, task, author),) = admitted
    assert (kept, task) == (source["source"], "linear_bias") and author.startswith("mcp:")


def test_a_task_has_one_with_fp8_operands_here_too(tmp_path):
    """The server knew no NAME_fp8, which every command takes."""
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)

    async def conversation(client):
        said = [text(await client.call_tool("read_task", {"task": n})) for n in ("linear_bias_fp8", "my_own_fp8")]
        none = await client.call_tool("read_task", {"task": "gelu_bwd_fp8"})
        wrong = {"task": "linear_bias_fp8", "source": EPILOGUE % "acc + bias"}
        return said, none, (await client.call_tool("check", wrong)).structured_content

    said, none, wrong = talk(make_server([str(mine)]), conversation)
    assert all("`x_scale`" in one for one in said) and "2 * (x @ w.T * x_scale[:, None] * w_scale)" in said[1]
    assert none.is_error and "there is no task 'gelu_bwd_fp8': fp8 operands are contiguous along K" in text(none)
    assert "never uses x_scale" in wrong["feedback"]


def test_what_is_refused_is_not_admitted(here):
    server, admitted = here

    async def conversation(client):
        return await client.call_tool("submit", {"task": "linear_bias", "source": "x = 1  # WRONG\n"})

    result = talk(server, conversation).structured_content
    assert result["status"] == "refused" and "Halve it." in result["feedback"] and admitted == []
    assert "Send the whole" not in result["feedback"]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_task", {"task": "no_such"}, "list_tasks says which there are"),
        ("check", {"task": "/etc/passwd", "source": "x"}, "there is no task '/etc/passwd' here"),
        ("check", {"task": __file__, "source": "x"}, "there is no task"),
        ("check", {"task": "linear_bias", "source": "x = 1  # BROKEN"}, "the driver went away"),
        ("check", {"task": "linear_bias", "source": "x", "tier": "open"}, "tier"),
        ("check", {"task": "linear_bias"}, "source"),
    ],
)
def test_a_call_that_cannot_be_is_one_sentence_for_the_client(here, tool, arguments, words):
    server, _ = here

    async def conversation(client):
        return await client.call_tool(tool, arguments)

    result = talk(server, conversation)
    assert result.is_error and words in text(result) and "Traceback" not in text(result)


def test_a_refusal_of_the_registry_reaches_the_client(here, monkeypatch):
    from codasmith import verified_kernels
    from codasmith.verified_kernels import AdmissionError

    def refuse(*_, **__):
        raise AdmissionError("linear_bias is not admitted: the store is full")

    monkeypatch.setitem(vars(verified_kernels), "admit", refuse)

    async def conversation(client):
        return await client.call_tool("submit", {"task": "linear_bias", "source": "x = 1  # tax=1.05 \n"})

    result = talk(here[0], conversation)
    assert result.is_error and "the store is full" in text(result)


def test_without_the_sdk_one_sentence_says_how_to_install_it():
    script = (
        "import sys; sys.modules['mcp'] = None; from codasmith.agent.cli import main; sys.argv[1:] = ['mcp']; main()"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert found.returncode == 2 and 'pip install "codasmith[mcp]"' in found.stderr
    assert found.stdout == "" and "Traceback" not in found.stderr


def test_a_task_file_that_is_not_there_is_a_sentence():
    command = [sys.executable, "-m", "codasmith.agent", "mcp", "no_such.py"]
    found = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert found.returncode == 2 and "there is no file" in found.stderr and "Traceback" not in found.stderr
