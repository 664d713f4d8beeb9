"""The one fenced Python block of an answer, or a finding that says what to send instead."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from ..gate.verdict import Finding

LARGEST = 64_000
"""Bytes of source; an epilogue is a few lines."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})[ \t]*([^`]*)$")
_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_ASK = "Answer with one ```python block that holds the whole file, and nothing else in it."


@dataclass
class _Block:
    label: str
    lines: list[str]
    closed: bool


def extract(text: str, stop_reason: str = "") -> str | Finding:
    """The candidate's source from a model's answer."""
    text = _THINKING.sub("", text.replace("\r\n", "\n"), count=1)
    if not text.strip():
        return Finding(code="empty-answer", message="The answer is empty.", remedy=_ASK)
    blocks = [b for b in _blocks(text) if b.label in ("python", "py", "python3", "")]
    labelled = [b for b in blocks if b.label]
    blocks = labelled or blocks
    if any(not b.closed for b in blocks) or (not blocks and stop_reason == "length"):
        return Finding(
            code="truncated-answer",
            message="The answer ends before its code block is closed.",
            remedy="Think and write less before the block: the answer's length is limited.",
        )
    if not blocks:
        return Finding(code="no-code", message="The answer holds no code block.", remedy=_ASK)
    if len(blocks) > 1:
        return Finding(
            code="several-blocks",
            message=f"The answer holds {len(blocks)} code blocks, and it is not clear which one counts.",
            remedy=_ASK,
        )
    source = textwrap.dedent("\n".join(blocks[0].lines)).strip("\n") + "\n"
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > LARGEST:
        return Finding(
            code="too-large",
            message=f"The code block is {size:,} bytes long; at most {LARGEST:,} are read.",
            remedy="Write the epilogue alone, as expressions instead of tables.",
        )
    return _parsed(source)


def _blocks(text: str) -> list[_Block]:
    """The fenced blocks, as CommonMark reads them: closed by a fence of the same kind, at least as long."""
    found: list[_Block] = []
    opening = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if opening:
            if match and match[1][0] == opening[0] and len(match[1]) >= len(opening) and not match[2].strip():
                found[-1].closed, opening = True, ""
            else:
                found[-1].lines.append(line)
        elif match:
            opening = match[1]
            words = match[2].split()
            found.append(_Block(words[0].lower() if words else "", [], closed=False))
    return found


def _parsed(source: str) -> str | Finding:
    try:
        from ..primitives.syntax import syntax_tree  # with torch, so not before there is an answer

        tree = syntax_tree(source)
    except SyntaxError as error:
        return Finding(
            code="syntax-error",
            message=f"The code block is not Python: {error.msg}.",
            remedy="Put nothing but the file into the block; explanations belong outside it or into # comments.",
            line=error.lineno,
            details={"that line": error.text.strip()[:400]} if error.text else {},
        )
    except (ValueError, RecursionError, MemoryError):
        return Finding(
            code="unreadable-code",
            message="Python's parser cannot read the code block (null characters, or expressions nested too deeply).",
            remedy="Write plain text, and give long expressions names.",
        )
    if not tree.body:
        return Finding(code="no-code", message="The code block is empty.", remedy=_ASK)
    return source
