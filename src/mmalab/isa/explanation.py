"""One instruction whole: what it does, its operands, fragments, targets, and how all that is known.

``explain_data`` gives plain data for JSON, ``explain`` the same as text.
"""

from __future__ import annotations

from typing import Any

from mmalab.isa.form import Form, Fragment, OperandSpec, Sparsity
from mmalab.isa.hardware import execution
from mmalab.isa.lookup import form_of
from mmalab.isa.targets import TARGETS, parse_targets
from mmalab.isa.verdict import usage

__all__ = ["explain", "explain_data"]

#: Legal values that are named one by one.
_FEW = 4


def explain_data(form: Form | str) -> dict[str, Any]:
    """Everything that the table says of a form, as plain data.

    Raises:
        UnknownForm: the table does not hold it.
    """
    form = form_of(form)
    allowed = parse_targets(form.targets)
    return {
        "form": form.key,
        "usage": usage(form),
        "other_usages": [usage(form, listed) for listed in form.others],
        "summary": form.summary,
        "family": form.family,
        "modifiers": dict(form.modifiers),
        "operands": [_operand(spec) for spec in form.operands],
        "fragments": {name: _fragment(f) for name, f in form.fragments.items()},
        "sparsity": _sparsity(form.sparsity) if form.sparsity else None,
        "shape": list(form.shape) if form.shape else None,
        "flops": form.flops,
        "targets": form.targets,
        "target_list": [name for name in TARGETS if name in allowed],
        "ptx": f"{form.ptx[0]}.{form.ptx[1]}",
        "ptx_on": {name: f"{major}.{minor}" for name, (major, minor) in form.ptx_on.items()},
        "until": f"{form.until[0]}.{form.until[1]}" if form.until else None,
        "gone": form.gone,
        "execution": _execution(form),
        "source": str(form.source),
        "evidence": str(form.evidence),
        "notes": list(form.notes),
    }


def _operand(spec: OperandSpec) -> dict[str, Any]:
    return {
        "name": spec.name, "role": spec.role, "type": spec.type, "registers": spec.count,
        "vector": spec.vector, "optional": spec.optional, "pair": spec.pair,
        "values": _values(spec.values),
    }


def _values(values: range | tuple[int, ...] | None) -> list[int] | dict[str, int] | None:
    """Legal values, a long range by its ends."""
    if isinstance(values, range) and len(values) > 256:
        return {"first": values[0], "last": values[-1], "step": values.step}
    return None if values is None else list(values)


def _fragment(fragment: Fragment) -> dict[str, Any]:
    return {
        "rows": fragment.rows, "cols": fragment.cols, "type": fragment.type,
        "bits": fragment.bits, "registers": fragment.registers,
        "register_bits": fragment.register_bits, "layout": str(fragment.layout),
        "copies": fragment.copies, "matrices": fragment.batch,
    }


def _sparsity(sparsity: Sparsity) -> dict[str, Any]:
    return {
        "group": sparsity.group, "kept": sparsity.kept, "unit": sparsity.unit,
        "index_bits": sparsity.index_bits, "contributors": sparsity.contributors,
        "selectors": list(sparsity.selectors), "metadata": str(sparsity.metadata),
        "patterns": [f"{p:04b}" for p in sparsity.patterns], "evidence": str(sparsity.evidence),
    }


def _execution(form: Form) -> dict[str, str]:
    """Unit by chip, where the form is a matrix instruction."""
    found = {}
    for one in TARGETS.values():
        how = execution(form, one)
        if how is not None:
            found[f"sm_{one.number}"] = str(how)
    return found


def _by_unit(chips: dict[str, str]) -> dict[str, list[str]]:
    """Chips by what they do, in order of appearance."""
    found: dict[str, list[str]] = {}
    for chip, how in chips.items():
        found.setdefault(how, []).append(chip)
    return found


def explain(form: Form | str) -> str:
    """The form as text."""
    data = explain_data(form)
    lines = [data["usage"], f"  {data['summary']}"]
    lines += [f"  or        {other.removeprefix(data['form']).lstrip()}"
              for other in data["other_usages"]]
    lines.append(f"  targets   {data['targets']}, PTX {data['ptx']} and later"
                 + (f", until {data['until']}" if data["until"] else ""))
    if data["shape"]:
        m, n, k = data["shape"]
        group = "warpgroup" if data["family"].startswith("wgmma") else "warp"
        lines.append(f"  shape     M {m}, N {n}, K {k}: {data['flops']} operations a {group}")
    lines += [f"  {name:<9} {_words(spec)}" for spec in data["operands"]
              for name in (spec["name"],)]
    described = [spec["name"] for spec in data["operands"]
                 if data["family"].startswith("wgmma") and spec["type"] == "b64"]
    if described:
        lines.append(f"  {', '.join(described):<9} 64 bits: descriptors of tiles in shared memory "
                     "(mmalab descriptor smem --help)")
    lines += [
        f"  {name}{', where it is in registers,' if name.lower() in described else ''} is "
        f"{f['rows']} x {f['cols']} {f['type']} in {f['registers']} registers: "
        f"(lane, slot) -> row + {f['rows']} column = {f['layout']}"
        for name, f in data["fragments"].items()
    ]
    if data["sparsity"]:
        s = data["sparsity"]
        lines.append(f"  metadata  {s['kept']} of {s['group']} kept, {s['index_bits']} bits each, "
                     f"from {s['contributors']} lanes of each quad; selectors {s['selectors']}")
    lines += [f"  {how}: {' '.join(chips)}"
              for how, chips in _by_unit(data["execution"]).items()]
    lines += [f"  note      {note}" for note in data["notes"]]
    lines.append(f"  source    {data['source']} ({data['evidence']})")
    return "\n".join(lines)


def _words(spec: dict[str, Any]) -> str:
    count = f"{spec['registers']} x " if spec["vector"] else ""
    kind = spec["type"] if spec["type"] not in ("", "addr") else ""
    pair = f", and a {spec['pair']}" if spec["pair"] else ""
    optional = " (may be missing)" if spec["optional"] else ""
    return f"{spec['role']} {count}{kind}{pair}{optional}{_listed(spec['values'])}".rstrip()


def _listed(values: list[int] | dict[str, int] | None) -> str:
    """Legal values in words: a few by name, more by their ends and step."""
    if not values:
        return ""
    if isinstance(values, dict):
        first, last, step = values["first"], values["last"], values["step"]
    elif len(values) <= _FEW:
        return ": " + " or ".join(map(str, values))
    else:
        first, last, step = values[0], values[-1], values[1] - values[0]
        if values != list(range(first, last + 1, step)):
            return ": " + ", ".join(map(str, values))
    return f": {first} to {last}" + (f" in steps of {step}" if step != 1 else "")
