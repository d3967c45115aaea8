"""Small changes of source text that a test should detect: one operator or constant at a time, found with `ast`.

Changes without an observable effect are left out: docstrings, annotations, texts of errors and logs, `__repr__` and
`__str__`, decorators, overloads, assertions, keywords that only make code stricter, constants so small that they
only prevent a division by zero, numbers of rows per block, and the sign of half a period before a modulo.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

_COMPARE = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"),
}  # fmt: skip
_SILENT_CALLS = {"print", "warn", "debug", "info", "warning", "error", "exception", "log", "lru_cache"}
_SILENT_CALLS |= {"TypeVar", "NewType", "cast", "Literal", "errstate", "simplefilter", "kernel_tree"}
_SILENT_KEYWORDS = {
    "strict", "copy", "exist_ok", "parents", "stacklevel", "allow_pickle", "kind", "repr", "init", "compare", "frozen",
    "maxsize", "timeout", "encoding", "newline", "daemon", "dtype", "order", "writeable", "write", "check", "epsrel",
    "initial",
}  # fmt: skip
_UNSEEN_FUNCTIONS = {"__repr__", "__str__", "__hash__", "__rich__", "_repr_html_"}
SMALL = 1e-5
"""Constants below this value keep numbers away from zero; a change of a tenth has no observable effect."""


@dataclass(frozen=True)
class Change:
    """One change of a source file."""

    line: int
    column: int
    """Start of the change, in characters."""
    old: str
    new: str
    start: int
    end: int
    """Span of the old text in the file, in bytes of UTF-8."""

    def applied(self, source: bytes) -> bytes:
        """The file with this change."""
        assert source[self.start : self.end].decode() == self.old
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{' '.join(self.old.split())}  ->  {' '.join(self.new.split())}"


def changes(source: bytes) -> list[Change]:
    """All changes of a file, in the order of its text."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda change: (change.start, change.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Change] = []

    # ---- what is left alone ----------------------------------------------------------------------------------------

    def visit_Raise(self, node: ast.Raise) -> None:
        """Skip errors, because their texts are not tested here."""

    visit_JoinedStr = visit_Assert = visit_Import = visit_ImportFrom = visit_Raise  # type: ignore[assignment]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        decorators = {ast.unparse(one).split("(")[0].split(".")[-1] for one in node.decorator_list}
        if node.name in _UNSEEN_FUNCTIONS or "overload" in decorators:
            return
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        # A condition that only guards an error still counts, because the cases that it lets pass are observable.
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).split(".")[-1]
        if name in _SILENT_CALLS or name.endswith(("Error", "Warning", "_error")) or name == "unknown_name":
            return
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in _SILENT_KEYWORDS:
                self.visit(keyword.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(one, ast.Name) and one.id in ("__all__", "__slots__") for one in node.targets):
            self.visit(node.value)

    # ---- what is changed -------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            kind, right = type(node.ops[0]), node.comparators[0]
            self._between(node.left, right, _COMPARE[kind])
            if kind in _BOUNDARY and (_is_whole(node.left) or _is_whole(right)):
                self._between(node.left, right, _BOUNDARY[kind])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if _sets_a_block(node):
            return
        kind = type(node.op)
        if kind is ast.Mod and isinstance(node.left, ast.BinOp) and _is_half(node.left.right, node.right):
            # (x + p/2) % p and (x - p/2) % p are equal.
            self.visit(node.left.left)
            self.visit(node.left.right)
            self.visit(node.right)
            self._between(node.left, node.right, _ARITHMETIC[kind][1])
            return
        text = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        union = kind is ast.BitOr and any(
            isinstance(side, ast.Constant) and side.value is None for side in (node.left, node.right)
        )
        # Adding 0.0 removes the sign of a negative zero; subtracting it has the same effect on all other numbers.
        nothing = isinstance(node.right, ast.Constant) and node.right.value == 0.0
        if kind in _ARITHMETIC and not text and not union and not nothing:
            self._between(node.left, node.right, _ARITHMETIC[kind][1])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._between(node.values[0], node.values[1], "or" if isinstance(node.op, ast.And) else "and")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
            inner = self._text(node.operand)
            self._replace(node, f"({inner})" if isinstance(node.op, ast.Not) else f"+({inner})")
            if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
                return
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not isinstance(node.value, ast.Constant):
            self._replace(node.value, "None")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value))
        elif isinstance(value, int):
            # Large decimal numbers are wavelengths or years of a table, where one more has no observable effect.
            step = value // 10 if value >= 100 and not self._text(node).startswith("0x") else 1
            self._replace(node, str(value + step))
            if value > 1:
                self._replace(node, str(value - step))
        elif isinstance(value, float) and (value == 0.0 or abs(value) > SMALL) and abs(value) < 1e15:
            self._replace(node, "1.0" if value == 0.0 else repr(value * 1.1))

    # ---- places ----------------------------------------------------------------------------------------------------

    def _place(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _replace(self, node: ast.expr, new: str) -> None:
        start, end = self._span(node)
        self._add(start, end, new)

    def _between(self, left: ast.expr, right: ast.expr, new: str) -> None:
        """Change the operator between two operands; brackets and comments between them stay."""
        start, end = self._span(left)[1], self._span(right)[0]
        between = self.source[start:end]
        bare = between.replace(b"(", b" ").replace(b")", b" ")
        if b"#" in between or b"\\" in between:
            return
        operator = bare.strip()
        first = start + len(bare) - len(bare.lstrip())
        self._add(first, first + len(operator), new)

    def _add(self, start: int, end: int, new: str) -> None:
        line = next(number for number in range(len(self.starts) - 1, 0, -1) if self.starts[number - 1] <= start)
        old = self.source[start:end].decode()
        column = len(self.source[self.starts[line - 1] : start].decode())
        self.found.append(Change(line, column, old, new, start, end))


def _is_whole(node: ast.expr) -> bool:
    """Return True if an operand is an integer or a length, for which the boundary itself can occur."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and not isinstance(node.value, bool)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "len"


def _sets_a_block(node: ast.expr) -> bool:
    """Return True for the number of rows that are computed at a time, which changes no result."""
    return any(isinstance(one, ast.Name) and one.id.endswith("BLOCK") for one in ast.walk(node))


def _is_half(half: ast.expr, whole: ast.expr) -> bool:
    """Return True if `whole` is written as twice `half`, or `half` as one half of `whole`."""
    for one, other, factor in ((whole, half, 2.0), (half, whole, 0.5)):
        product = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult) and isinstance(one.left, ast.Constant)
        if product and one.left.value == factor and ast.dump(one.right) == ast.dump(other):
            return True
    numbers = [node.value for node in (half, whole) if isinstance(node, ast.Constant)]
    return len(numbers) == 2 and 2.0 * numbers[0] == numbers[1]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
