"""The same random program, with functions that have right gradients (and replays) of their own in it."""

from __future__ import annotations

import ast

OWN = """
@wp.func
def own_sin(a):
    return wp.sin(a)


@wp.func_grad(own_sin)
def adj_own_sin(a, adj_ret):
    wp.adjoint[a] += wp.cos(a) * adj_ret


@wp.func
def own_abs(a):
    return wp.abs(a)


@wp.func_replay(own_abs)
def replay_own_abs(a):
    if a < 0.0:
        return -a
    return a


@wp.func
def own_clamp(a, low, high):
    return wp.clamp(a, low, high), 1


@wp.func_grad(own_clamp)
def adj_own_clamp(a, low, high, adj_ret, adj_one):
    for k in range(3):
        if a < low and k == 0:
            wp.adjoint[low] -= -adj_ret
        elif a > high and k == 1:
            wp.adjoint[high] = wp.adjoint[high] + adj_ret
        elif a >= low and a <= high and k == 2:
            wp.adjoint[a] += adj_ret
            return


@wp.func_replay(own_clamp)
def replay_own_clamp(a, low, high):
    return own_clamp(a, low, high)


@wp.func
def own_element(a, i: int):
    return own_times(a[i], 2.0) * 0.5


@wp.func
def own_times(a, b):
    return a * b


@wp.func_grad(own_times)
def adj_own_times(a, b, adj_ret):
    wp.adjoint[a] += b * adj_ret


@wp.func
def own_cell(a, i: int, j: int):
    return a[i, j]


@wp.func_grad(own_cell)
def adj_own_cell(a, i: int, j: int, adj_ret):
    wp.adjoint[a][i, j] += adj_ret


"""


class _Own(ast.NodeTransformer):
    """Puts the functions in place of operations and of loads."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in ("wp.sin", "wp.abs", "wp.clamp"):
            own = ast.Call(ast.Name(name.replace("wp.", "own_"), ast.Load()), node.args, [])
            return ast.Subscript(own, ast.Constant(0), ast.Load()) if name == "wp.clamp" else own
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not isinstance(node.value, ast.Name):
            return node
        name, index = node.value, node.slice
        if name.id in ("x", "y") and not isinstance(index, ast.Tuple | ast.Slice):
            return ast.Call(ast.Name("own_element", ast.Load()), [name, index], [])
        if name.id == "w" and isinstance(index, ast.Tuple):
            return ast.Call(ast.Name("own_cell", ast.Load()), [name, *index.elts], [])
        return node


def with_own_functions(source: str) -> str:
    """A program with the same values and derivatives."""
    head, function, rest = source.partition("@wp.")
    tree = _Own().visit(ast.parse(function + rest))
    return head + OWN + ast.unparse(ast.fix_missing_locations(tree)) + "\n"
