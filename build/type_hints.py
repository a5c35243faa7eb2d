"""What a source holds for checkers of types alone: types of variables, and imports of what only types name."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def names_in(tree: ast.AST) -> set[str]:
    """Return every name that stands there, whether it is read or bound."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def drop_type_imports(tree: ast.Module, names: set[str]) -> ast.Module:
    """Return `tree`, whose types are gone, without the imports of what these named.

    `names` stood there with the types. What is imported and was not among them is for another module, or is imported
    for what that does.
    """
    unused = names - names_in(tree)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            node.names = [alias for alias in node.names if (alias.asname or alias.name) not in unused]
    tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom) or node.names]
    return tree


def find_variables(tree: ast.AST) -> Iterator[ast.AnnAssign]:
    """Yield the assignments with a type that no one asks for at run time: not those in classes."""
    fields = {part for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    return (node for node in found if node.value and node not in fields)


def drop_variable_types(tree: ast.Module) -> ast.Module:
    """Return `tree` with plain assignments instead of those of `find_variables`."""
    return _Assign(set(find_variables(tree))).visit(tree)  # type: ignore[no-any-return]


class _Assign(ast.NodeTransformer):
    def __init__(self, variables: set[ast.AnnAssign]) -> None:
        self.variables = variables

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node not in self.variables or node.value is None:
            return node
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)
