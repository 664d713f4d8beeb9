"""The meaning of a function's body: statements bind names, helper functions are inlined, a dict is returned."""

from __future__ import annotations

import ast

from .expression import Expressions, Scope, Value
from .graph import GraphError
from .infer import check_output
from .language import ReadError


class Body(Expressions):
    """Grows one graph from the bodies of an epilogue and its helpers."""

    def outputs(self, function: ast.FunctionDef, bound: dict[str, Value]) -> dict[str, int]:
        """What an epilogue returns, by name, its parameters being bound in scope."""
        scope = Scope(bound, {*bound, *_assigned(function)})
        returned = self._run(function, scope)
        value = returned.value
        if not isinstance(value, ast.Dict) or not value.keys:
            raise ReadError(
                returned.lineno,
                "The epilogue does not return a dict written out.",
                'Write return {"name": value} with one key for each output.',
                "bad-return",
            )
        outputs: dict[str, int] = {}
        for key, expression in zip(value.keys, value.values, strict=True):
            line = (key or expression).lineno
            name = key.value if isinstance(key, ast.Constant) else None
            if not isinstance(name, str) or not name.isidentifier():
                raise ReadError(
                    line, "A key of the returned dict is not a name in quotes.", 'Write "name": value.', "bad-return"
                )
            if name in outputs:
                raise ReadError(line, f"The output {name} is returned twice.", "Return it once.", "duplicate-output")
            outputs[name] = self.one(expression, scope)
            try:
                check_output(name, self.builder.types[outputs[name]])
            except GraphError as error:
                raise self.at(error, expression.lineno) from None
        return outputs

    # --- statements -----------------------------------------------------------------------------

    def _run(self, function: ast.FunctionDef, scope: Scope) -> ast.Return:
        """Bind what the statements assign; the return statement at the end."""
        statements = function.body[1:] if is_docstring(function.body[0]) else function.body
        for position, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                if position + 1 < len(statements):
                    line = statements[position + 1].lineno
                    raise ReadError(
                        line, "This line is never reached.", "End the function with its return.", "unreachable"
                    )
                return statement
            self._statement(statement, scope)
        what = '{"name": value}' if function.decorator_list else "value"
        raise ReadError(function.lineno, f"{function.name} has no return.", f"End it with return {what}.", "bad-return")

    def _statement(self, statement: ast.stmt, scope: Scope) -> None:
        if isinstance(statement, ast.Assign):
            value = self.expression(statement.value, scope)
            for target in statement.targets:
                self._assign(target, value, scope)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            left = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement)
            whole = ast.copy_location(ast.BinOp(left, statement.op, statement.value), statement)
            scope.bound[statement.target.id] = self.expression(whole, scope)
        elif is_docstring(statement):
            raise ReadError(
                statement.lineno, "A string stands in the body.", "Remove it, or write a comment.", "string"
            )
        else:
            if isinstance(statement, ast.Expr):
                self.expression(statement.value, scope)
            raise ReadError(
                statement.lineno, "The value of this line is not used.", "Write name = value.", "unused-value"
            )

    def _assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        self.steps += 1
        if isinstance(target, ast.Name):
            scope.bound[target.id] = value
        elif isinstance(target, ast.Tuple):
            values = value if isinstance(value, tuple) else (value,)
            if not isinstance(value, tuple) or len(values) != len(target.elts):
                raise ReadError(
                    target.lineno,
                    f"{len(target.elts)} names stand on the left, and {len(values)} "
                    f"{'value' if len(values) == 1 else 'values'} on the right.",
                    "Several values come from unpack (two), a tuple, or a helper that returns one.",
                    "bad-assignment",
                )
            for part, one in zip(target.elts, values, strict=True):
                self._assign(part, one, scope)
        else:
            raise ReadError(target.lineno, "The target is not a name.", "Write name = value.", "bad-assignment")

    # --- helper functions -----------------------------------------------------------------------

    def inline(self, helper: ast.FunctionDef, e: ast.Call, scope: Scope) -> Value:
        name = helper.name
        if helper.decorator_list:
            raise ReadError(e.lineno, f"The epilogue {name} is called.", "Call helper functions only.", "bad-call")
        if any(name == called for called, _ in self.calls):
            raise ReadError(e.lineno, f"{name} calls itself.", "Write the terms out.", "recursion")
        parameters = tuple(p.arg for p in helper.args.args)
        bound = self.bind(name, f"{name}({', '.join(parameters)})", parameters, len(parameters), e)
        inner = {p: self.expression(a, scope) for p, a in zip(parameters, bound, strict=True)}
        inside = Scope(inner, {*inner, *_assigned(helper)})
        self.calls.append((name, e.lineno))
        returned = self._run(helper, inside)
        if returned.value is None:
            raise ReadError(returned.lineno, f"{name} returns nothing.", "Return a value.", "bad-return")
        result = self.expression(returned.value, inside)
        self.calls.pop()
        return result


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _assigned(function: ast.FunctionDef) -> set[str]:
    """The names that a function's statements assign: they are its own, as in Python."""
    names: set[str] = set()
    for statement in function.body:
        targets = list(statement.targets) if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        while targets:
            target = targets.pop()
            if isinstance(target, ast.Name):
                names.add(target.id)
            elif isinstance(target, ast.Tuple):
                targets.extend(target.elts)
    return names
