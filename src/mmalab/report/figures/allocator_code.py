"""What the compiler puts around Tensor Memory, and which resource admits fewer CTAs than it."""

from __future__ import annotations

from mmalab.claims.records import load
from mmalab.plan import occupancy as model
from mmalab.plan.occupancy import occupancy
from mmalab.report.charts import Bar, bars
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.figures.register_file import DRAIN

__all__ = ["KERNELS", "binding", "guardrails"]

#: Two kernels for sm_100a: registers of a thread, shared bytes, threads, columns.
KERNELS: dict[str, tuple[int, int, int, int]] = {
    "small": (64, 48 * 1024, 192, 256),
    "pipelined": (168, 200 * 1024, 384, 256),
}


def guardrails() -> Figure:
    """Lines of machine code that name a trap handler, by release and level."""
    record = load(DRAIN)
    rows = tuple((row["toolkit"], f"-O{row['opt_level']}", row["instructions"], row["references"],
                  len(row["handlers"]), "yes" if row["retries"] else "no")
                 for row in record["allocators"])

    def draw(width: int) -> str:
        return bars(width, "guardrails by release and level", [
            Bar(f"{kit} {level}", count, f"{count} in {instructions} instructions",
                "accent" if kit == rows[-1][0] else "soft")
            for kit, level, instructions, count, _, _ in rows])

    first, last = rows[0], rows[-1]
    return Figure(
        "guardrails", "The allocator that the compiler writes",
        f"Lines that name a trap handler in article B's probe of alloc, mma and dealloc. ptxas "
        f"{first[0]} puts {first[4]} handlers around it at every level, {last[0]} {last[4]}; a "
        "claim of columns that fails is tried again after a pause in both.",
        draw,
        Table(("ptxas", "level", "instructions", "lines that name a handler", "handlers",
               "retries"), rows),
        (Evidence("compiled", f"ptxas {', '.join(sorted({str(row[0]) for row in rows}))} for "
                              f"{record['target']}, {record['date']}; {record['command']}"),),
        "mmalab atlas --what guardrails", "B, section 3")


def binding() -> Figure:
    """CTAs that each resource of an SM admits, for a small kernel and a pipelined one."""
    found = {name: occupancy(registers=registers, shared=shared, threads=threads, tmem=columns,
                             target="sm_100a")
             for name, (registers, shared, threads, columns) in KERNELS.items()}
    rows = tuple((name, resource, count, "yes" if resource in plan.binding else "")
                 for name, plan in found.items() for resource, count in plan.limits.items())

    def draw(width: int) -> str:
        return bars(width, "CTAs that each resource admits", [
            Bar(f"{name}: {resource}", count, str(count), "warn" if binds else
                "accent" if resource == "tensor memory" else "soft")
            for name, resource, count, binds in rows if resource != "CTAs"])

    commands = [f"mmalab plan occupancy --registers {registers} --shared {shared} --threads "
                f"{threads} --tmem {columns} --target sm_100a"
                for registers, shared, threads, columns in KERNELS.values()]
    return Figure(
        "binding", "Which resource binds",
        "CTAs of an sm_100a SM by resource. Tensor Memory binds a small kernel that holds a whole "
        "accumulator. With the stages of a pipeline in shared memory it does not: shared memory "
        "and registers are used up first.",
        draw, Table(("kernel", "resource", "CTAs", "binds"), rows),
        (Evidence("derived", model.FORMULA), Evidence("recorded elsewhere", model.SOURCE)),
        " && ".join(commands), "B, section 6")
