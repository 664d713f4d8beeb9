"""The meaning of an expression: names, numbers, operators and calls become nodes of a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .fold import FLOAT32_MAX
from .graph import CONST, EVEN, ODD, Builder, GraphError
from .language import ReadError, known
from .primitive import REGISTRY

MAX_NODES = 2000
MAX_STEPS = 50_000
MAX_DEPTH = 100

# What an expression is: a node of the graph, or several from unpack, a tuple or a helper.
Value = int | tuple["Value", ...]

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


@dataclass
class File:
    """What the names of a candidate's file stand for."""

    imports: dict[str, str] = field(default_factory=dict)
    """Local name to primitive (or "epilogue")."""
    constants: dict[str, float] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)


_OPERATORS = "Use + - * /, and ** with an exponent of 2, 3, 4, 0.5, -0.5 or -1; & and | join conditions."


@dataclass
class Scope:
    """The names of one function: what is bound so far, and everything it ever assigns."""

    bound: dict[str, Value]
    local: set[str]


class Expressions:
    """Grows one graph, expression by expression. `inline` says what a call of a helper function is."""

    def __init__(self, file: File, builder: Builder, offered: Iterable[str] = ()):
        self.file, self.builder, self.offered = file, builder, set(offered)
        self.calls: list[tuple[str, int]] = []
        self.steps = self.depth = 0

    def inline(self, helper: ast.FunctionDef, e: ast.Call, scope: Scope) -> Value:
        raise ReadError(e.lineno, "A constant of the file calls a function.", "Write NAME = number.", "constant")

    def number(self, expression: ast.expr) -> float:
        """A constant of the file: arithmetic of numbers and of the constants above it."""
        value = self.expression(expression, Scope({}, set()))
        if isinstance(value, tuple) or self.builder.nodes[value].op != CONST:
            raise ReadError(
                expression.lineno, "A constant of the file is not a number.", "Write NAME = number.", "constant"
            )
        return self.builder.nodes[value].value

    def expression(self, e: ast.expr, scope: Scope) -> Value:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.builder.nodes) > MAX_NODES:
            many = f"{MAX_NODES} operations" if self.steps <= MAX_STEPS else f"{MAX_STEPS} names and numbers"
            message = f"The epilogue has more than {many}, its helper functions inlined."
            raise ReadError(e.lineno, message, "Write a shorter one.", "too-large")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ReadError(e.lineno, "An expression is nested too deeply.", "Give its parts names.", "too-deep")
        try:
            return self._dispatch(e, scope)
        finally:
            self.depth -= 1

    def _dispatch(self, e: ast.expr, scope: Scope) -> Value:
        if isinstance(e, ast.Name):
            return self._name(e, scope)
        if isinstance(e, ast.Constant):
            return self._constant(e)
        if isinstance(e, ast.Tuple):
            return tuple(self.expression(part, scope) for part in e.elts)
        if isinstance(e, ast.Call):
            return self._call(e, scope)
        if isinstance(e, ast.UnaryOp):
            if isinstance(e.op, ast.USub):
                return self.node("neg", (self.one(e.operand, scope),), e)
            if isinstance(e.op, ast.UAdd):
                return self.one(e.operand, scope)
            raise ReadError(e.lineno, "`not` and ~ are not part of an epilogue.", known("logical_not"), "expression")
        if isinstance(e, ast.BinOp):
            if isinstance(e.op, ast.Pow):
                return self._power(e, scope)
            if type(e.op) not in _BINARY:
                raise ReadError(
                    e.lineno, f"The operator {type(e.op).__name__} has no meaning here.", _OPERATORS, "operator"
                )
            return self.node(_BINARY[type(e.op)], (self.one(e.left, scope), self.one(e.right, scope)), e)
        if isinstance(e, ast.Compare):
            return self._compare(e, scope)
        raise ReadError(
            e.lineno,
            "A dict stands inside the epilogue.",
            'Only the return has one: return {"name": value}.',
            "bad-return",
        )

    def one(self, e: ast.expr, scope: Scope) -> int:
        value = self.expression(e, scope)
        if isinstance(value, tuple):
            raise ReadError(
                e.lineno,
                "Several values stand where one belongs.",
                "Take them apart first: even, odd = unpack(x).",
                "tuple",
            )
        return value

    def _name(self, e: ast.Name, scope: Scope) -> Value:
        if e.id in scope.bound:
            return scope.bound[e.id]
        if e.id in scope.local:
            raise ReadError(
                e.lineno, f"{e.id} is used before it is assigned.", "Assign it above this line.", "unassigned"
            )
        if e.id in self.file.constants:
            return self.node(CONST, (), e, value=self.file.constants[e.id])
        if e.id in self.file.functions or e.id in self.file.imports:
            raise ReadError(e.lineno, f"{e.id} is a function, used as a value.", f"Call it: {e.id}(...).", "bad-call")
        if e.id in self.offered:
            remedy = f"It is an operand of the task: add it to the parameters, def f(acc, {e.id})."
        else:
            remedy = known(e.id, [*scope.bound, *self.file.constants, *self.offered])
        raise ReadError(e.lineno, f"The name {e.id} is not defined.", remedy, "unknown-name")

    def _constant(self, e: ast.Constant) -> int:
        if isinstance(e.value, str | bytes):
            raise ReadError(e.lineno, "A string stands in an expression.", "Remove it: values are numbers.", "string")
        if isinstance(e.value, bool) or not isinstance(e.value, int | float):
            raise ReadError(e.lineno, f"{e.value} is not a real number.", "Write a number such as 1.0.", "bad-constant")
        try:
            return self.node(CONST, (), e, value=float(e.value))
        except OverflowError:
            raise ReadError(
                e.lineno, "This number is too large for float32.", "Write a smaller one.", "bad-constant"
            ) from None

    def _power(self, e: ast.BinOp, scope: Scope) -> int:
        base, exponent = self.one(e.left, scope), self.one(e.right, scope)
        nodes = self.builder.nodes
        if nodes[exponent].op != CONST:
            raise ReadError(
                e.lineno, "The exponent of ** is not a constant.", "Write exp(b * log(a)) for a ** b.", "operator"
            )
        n = nodes[exponent].value
        if nodes[base].op == CONST:
            b = nodes[base].value
            try:
                result = b**n
            except (ArithmeticError, ValueError):
                result = float("nan")
            if not isinstance(result, float) or not abs(result) <= FLOAT32_MAX:
                message = f"({b:g}) ** ({n:g}) is not a finite float32 number."
                raise ReadError(e.lineno, message, "Change the constants.", "bad-constant")
            return self.node(CONST, (), e, value=result)
        if n in (2, 3, 4):
            square = self.node("mul", (base, base), e)
            return square if n == 2 else self.node("mul", (square, base if n == 3 else square), e)
        op = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(n)
        if op is None:
            message = f"The exponent {n:g} is not one of 2, 3, 4, 0.5, -0.5, -1."
            remedy = "Multiply those: x ** 1.5 is x * sqrt(x), x ** 5 is x ** 4 * x, x ** -2 is (1 / x) ** 2."
            raise ReadError(e.lineno, message, remedy, "operator")
        return self.node(op, (base,), e)

    def _compare(self, e: ast.Compare, scope: Scope) -> int:
        if len(e.ops) > 1:
            remedy = "Write (a < b) & (b < c), each comparison in parentheses."
            raise ReadError(e.lineno, "Comparisons are chained.", remedy, "chained-comparison")
        op = _COMPARE.get(type(e.ops[0]))
        if op is None:
            raise ReadError(
                e.lineno, "`is` and `in` have no meaning here.", "Compare numbers: < <= > >= == !=.", "operator"
            )
        return self.node(op, (self.one(e.left, scope), self.one(e.comparators[0], scope)), e)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, e: ast.Call, scope: Scope) -> Value:
        if not isinstance(e.func, ast.Name):
            raise ReadError(
                e.lineno, "What is called is not a name.", "Call primitives and helpers by name.", "bad-call"
            )
        name = e.func.id
        if name in scope.local or name in self.file.constants:
            remedy = "Give the value another name than the function's."
            raise ReadError(e.lineno, f"{name} is a value here, and it is called.", remedy, "bad-call")
        helper = self.file.functions.get(name)
        if helper is not None:
            return self.inline(helper, e, scope)
        primitive = REGISTRY.get(self.file.imports.get(name, ""))
        if primitive is None:
            raise ReadError(
                e.lineno,
                f"The function {name} is not {'a primitive' if name in self.file.imports else 'defined'}.",
                known(name, self.file.functions),
                "unknown-name",
            )
        order = primitive.parameters
        bound = self.bind(primitive.name, primitive.signature, order, primitive.required, e)
        args = tuple(self.one(a, scope) for a in bound)
        if primitive.name == "unpack":
            return self.node(EVEN, args, e), self.node(ODD, args, e)
        if primitive.name == "rotate":
            try:
                return self.builder.rotate(*args, line=e.lineno)
            except GraphError as error:
                raise self.at(error, e.lineno) from None
        return self.node(primitive.name, args, e)

    def bind(
        self, name: str, signature: str, parameters: Sequence[str], required: int, call: ast.Call
    ) -> list[ast.expr]:
        """The call's arguments in the order of the parameters."""
        bound: dict[str, ast.expr] = dict(zip(parameters, call.args, strict=False))
        problem = (
            "" if len(call.args) <= len(parameters) else f"takes {len(parameters)} arguments, not {len(call.args)}"
        )
        for keyword in call.keywords:
            if keyword.arg is None:
                raise ReadError(
                    call.lineno,
                    "A starred argument (**x) is not part of an epilogue.",
                    f"Write {signature}.",
                    "expression",
                )
            if keyword.arg not in parameters:
                problem = problem or f"has no parameter {keyword.arg}"
            elif keyword.arg in bound:
                problem = problem or f"is given {keyword.arg} twice"
            bound[keyword.arg] = keyword.value
        missing = [p for p in parameters[:required] if p not in bound]
        if missing:
            problem = problem or f"is called without {missing[0]}"
        if problem:
            raise ReadError(call.lineno, f"{name} {problem}.", f"Write {signature}.", "bad-arguments")
        return [bound[p] for p in parameters if p in bound]

    # --- nodes ----------------------------------------------------------------------------------

    def node(self, op: str, args: tuple[int, ...], at: ast.AST, *, name: str = "", value: float = 0.0) -> int:
        """A node that stands at a place in the source; its errors carry the line."""
        line: int = at.lineno  # type: ignore[attr-defined]
        try:
            return self.builder.add(op, args, name=name, value=value, line=line)
        except GraphError as error:
            raise self.at(error, line) from None

    def at(self, error: GraphError, line: int) -> ReadError:
        called = "".join(f" (In {name}, called on line {at}.)" for name, at in self.calls[-1:])
        return ReadError(line, error.message + called, error.remedy, error.code)
