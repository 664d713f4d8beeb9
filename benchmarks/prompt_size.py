"""What the agent's questions cost in tokens, by level and tier: `python benchmarks/prompt_size.py TOKENIZER`.

The longest first question, and the largest request of the campaign that tests/agent/test_prompt_size.py describes,
counted by Anthropic's tokenizer, which its Python SDK held up to 0.38 (TOKENIZER is that release's
anthropic/tokenizer.json), and by OpenAI's o200k_base, which tiktoken downloads at first use; and by how much that
test's estimate exceeds the count at least.  One JSON line a level and tier.  Wants tokenizers and tiktoken.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from codasmith.agent.conversation import conversation

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

TESTS = Path(__file__).parents[1] / "tests" / "agent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    parser.add_argument("--out", type=out_file, help="JSON lines")
    options = parser.parse_args()
    counters = {"anthropic": anthropic(options.tokenizer), "o200k_base": o200k_base()}
    lines = [json.dumps(row) for row in sizes(counters)]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("".join(line + "\n" for line in lines))


def anthropic(file: Path) -> Callable[[str], int]:
    if not file.is_file():
        raise SystemExit(f"no such file: {file}; unpack anthropic 0.38.0's wheel and name its anthropic/tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SystemExit("counting wants tokenizers: pip install tokenizers") from None
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library has no class of its own for it
        raise SystemExit(f"{file} is no tokenizer.json ({error}); name that of anthropic 0.38.0") from None
    return lambda text: len(tokenizer.encode(text).ids)


def o200k_base() -> Callable[[str], int]:
    try:
        import tiktoken
    except ImportError:
        raise SystemExit("counting wants tiktoken: pip install tiktoken") from None
    encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def sizes(counters: dict[str, Callable[[str], int]]) -> list[dict]:
    """One row a level and tier: tokens of the longest first question, and of the largest request, by each tokenizer."""
    campaign, scripted = _of_tests("test_prompt_size"), _of_tests("conftest").Scripted
    rows = []
    for level, tier in campaign.LEVELS:
        tasks = [t for t in campaign.TASKS if t.level == level]
        asked = {t.name: [m.content for m in conversation(t, tier=tier)] for t in tasks}
        longest = max(tasks, key=lambda t: sum(map(len, asked[t.name])))
        with tempfile.TemporaryDirectory() as folder:
            request = campaign.largest_request(longest, tier, scripted, Path(folder) / "run.jsonl")
        said = [m.content for m in request]
        row = {"level": level, "tier": tier, "tasks": len(tasks), "longest": longest.name}
        for name, count in counters.items():
            firsts = {task: sum(map(count, texts)) for task, texts in asked.items()}
            ratios = [sum(map(campaign.tokens, texts)) / firsts[task] for task, texts in asked.items()]
            row[name] = {"first": max(firsts.values()), "request": sum(map(count, said))}
            row[name]["estimate_over_count"] = round(min(ratios), 3)
        rows.append(row)
    return rows


def _of_tests(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
