"""The prompt's worked examples are true: what they show compiles for sm_90a."""

from importlib import resources

import pytest
from codasmith.agent.prompt import EXAMPLES
from codasmith.gate.frame import frame_of
from codasmith.primitives import read
from codasmith.tasks import load_task
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES


@pytest.mark.slow
def test_the_cutedsl_answers_compile_without_spills_and_write_what_the_closed_ones_write(tmp_path):
    with Compiler(tmp_path, tier="cutedsl") as compiler:
        jobs = {}
        for name in EXAMPLES:
            folder = resources.files("codasmith.agent") / "prompts" / "examples" / name
            task = load_task(str(folder / "task.py"))
            graph = read((folder / "closed.py").read_text(), tuple(task.operands.values()))
            closed = generate(graph, frame_of(task, "bf16"), SCHEDULES[0]).signature
            jobs[name] = closed, compiler.submit((folder / "cutedsl.py").read_text(), closed)
        for closed, job in jobs.values():
            compiled = job.result()
            assert compiled.ok, compiled.error
            assert compiled.spill_bytes == 0
            assert (compiled.signature.mode, compiled.signature.d) == (closed.mode, closed.d)
            meanings = [
                {(a.name, a.role, a.direction, a.join) for a in s.arguments} for s in (compiled.signature, closed)
            ]
            assert meanings[0] == meanings[1]
