"""Loops of SASS, found in its branches.

A loop is natural: a branch back to a block that dominates it, and everything that reaches the
branch without passing that block. So a wait loop that the assembler laid out far from its test is
still one loop, and the branch-to-itself behind every EXIT, which nothing reaches, is none::

    .L_x_1:  LDSM ... HMMA ... ISETP P0 ...
             @P0 BRA .L_x_1                      Loop(header=.L_x_1, depth=1)

Reconvergence (BSSY, BSYNC) is not a branch here: threads go on behind the BSYNC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmalab.toolchain.sass import Instruction

__all__ = ["Loop", "find_loops"]

#: Opcodes after which control does not go on to the next instruction, unless predicated.
_ENDS = frozenset({"EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "KILL", "BRXU", "JMXU"})
_JUMPS = frozenset({"BRA", "JMP", "BRX", "JMX", "BRXU", "JMXU", "BREAK"})
#: Forms of BRA that may fall through although no predicate stands before them.
_CONDITIONAL = frozenset({"DIV", "CONV"})


@dataclass(frozen=True)
class Loop:
    """One loop: `instructions` in address order, inner loops included; `depth` 1 is outermost."""

    header: int
    depth: int
    instructions: tuple[Instruction, ...] = field(repr=False)
    children: tuple[int, ...] = ()

    @property
    def issued(self) -> tuple[Instruction, ...]:
        """The instructions without those that are predicated off for good."""
        return tuple(i for i in self.instructions if not i.never)

    @property
    def flops(self) -> int | None:
        """Operations per iteration and warp; None if a matrix instruction hides its shape."""
        each = [i.flops for i in self.instructions]
        return None if None in each else sum(f for f in each if f is not None)

    @property
    def flops_per_instruction(self) -> float | None:
        """Operations per issued instruction of an iteration."""
        flops = self.flops
        return None if flops is None else flops / max(1, len(self.issued))

    def histogram(self, *, full: bool = False) -> Counter[str]:
        """How often each opcode occurs; with `full`, each opcode with its modifiers."""
        return Counter(i.mnemonic if full else i.opcode for i in self.issued)

    def __len__(self) -> int:
        return len(self.instructions)


def find_loops(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """The natural loops of one function, outer before inner."""
    if not instructions:
        return ()
    blocks = _blocks(instructions)
    successors = _successors(instructions, blocks)
    order = _reachable(successors)
    predecessors = _predecessors(order, successors)
    dominators = _dominators(order, predecessors)
    bodies: dict[int, set[int]] = {}
    for tail in order:
        for head in successors[tail]:
            if head in dominators[tail]:
                bodies.setdefault(head, set()).update(_body(head, tail, predecessors))
    return _nest(instructions, blocks, bodies)


def _blocks(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Basic blocks as index ranges."""
    index = {instruction.address: at for at, instruction in enumerate(instructions)}
    leaders = {0}
    for at, instruction in enumerate(instructions):
        places = _places(instruction)
        leaders.update(index[place] for place in places if place in index)
        if (places or instruction.opcode in _ENDS) and at + 1 < len(instructions):
            leaders.add(at + 1)
    starts = sorted(leaders)
    return list(zip(starts, [*starts[1:], len(instructions)], strict=True))


def _places(instruction: Instruction) -> tuple[int, ...]:
    """Addresses that it may jump to (not call)."""
    if instruction.opcode not in _JUMPS:
        return ()
    target = instruction.target
    return (*((target,) if target is not None else ()), *instruction.targets)


def _goes_on(instruction: Instruction) -> bool:
    if instruction.opcode not in _ENDS or instruction.never:
        return True
    if instruction.predicate is not None and instruction.predicate.index is not None:
        return True
    # BRA.U UP0, `(...) and BRA P0, `(...) carry their condition as an operand.
    words = [operand for operand in instruction.operands if operand.file in ("P", "UP", "UR", "R")]
    conditional = any(getattr(operand, "index", None) is not None for operand in words)
    return instruction.opcode == "BRA" and (
        conditional or not _CONDITIONAL.isdisjoint(instruction.modifiers))


def _successors(instructions: Sequence[Instruction],
                blocks: list[tuple[int, int]]) -> list[list[int]]:
    start = {instructions[first].address: block for block, (first, _) in enumerate(blocks)}
    found = []
    for at, (_, end) in enumerate(blocks):
        last = instructions[end - 1]
        following = [start[place] for place in _places(last) if place in start]
        if _goes_on(last) and at + 1 < len(blocks):
            following.append(at + 1)
        found.append(following)
    return found


def _reachable(successors: list[list[int]]) -> list[int]:
    """Blocks that the first one reaches, in reverse postorder."""
    seen, order = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(successors[following])))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


def _predecessors(order: Iterable[int], successors: list[list[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {block: [] for block in order}
    for block in found:
        for following in successors[block]:
            found[following].append(block)
    return found


def _dominators(order: list[int], predecessors: dict[int, list[int]]) -> dict[int, set[int]]:
    everything = set(order)
    dominators = dict.fromkeys(order, everything)
    dominators[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = set.intersection(*(dominators[p] for p in predecessors[block])) | {block}
            if new != dominators[block]:
                dominators[block] = new
                changed = True
    return dominators


def _body(head: int, tail: int, predecessors: dict[int, list[int]]) -> set[int]:
    body, stack = {head}, [tail]
    while stack:
        block = stack.pop()
        if block not in body:
            body.add(block)
            stack.extend(predecessors[block])
    return body


def _nest(instructions: Sequence[Instruction], blocks: list[tuple[int, int]],
          bodies: dict[int, set[int]]) -> tuple[Loop, ...]:
    heads = sorted(bodies, key=lambda head: (head, -len(bodies[head])))
    inside = {head: [other for other in heads if other != head and head in bodies[other]]
              for head in heads}
    loops = []
    for head in heads:
        depth = 1 + len(inside[head])
        children = tuple(instructions[blocks[other][0]].address for other in heads
                         if head in inside[other] and len(inside[other]) == depth)
        body = [instructions[at] for block in sorted(bodies[head])
                for at in range(*blocks[block])]
        loops.append(Loop(instructions[blocks[head][0]].address, depth, tuple(body), children))
    return tuple(sorted(loops, key=lambda loop: (loop.header, loop.depth)))
