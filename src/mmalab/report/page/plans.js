// Plans: looked up by their key.
(() => {
  const plans = DATA.plans, get = (name) => $(`plan-${name}`);
  const size = (key) => { const [m, n, g] = key; return `${m} x ${n}${g > 1 ? ", a pair of CTAs" : ""}`; };
  menu(get("size"), plans.sizes.map((s) => [s.join("x"), size(s)]), "128x256x1");
  menu(get("format"), plans.formats.map((f) => [f, f]), "nvfp4");
  menu(get("stages"), plans.stages.map((s) => [s, s]), 1);
  menu(get("depth"), plans.depths.map((d) => [d, `${d} bytes`]), 128);
  menu(get("target"), plans.targets.map((t) => [t, t]), "sm_100a");

  function ledger(key) {
    const found = plans.ledgers[`${key} ${get("format").value} ${get("stages").value}`];
    const [m, n, g] = key.split("x"), answer = get("tmem-answer");
    refuse(answer, found.refused);
    if (found.refused) { get("tmem").replaceChildren(); get("tmem-command").textContent = command(m, n, g); return; }
    const over = Boolean(found.misfit);
    const held = found.held.reduce((total, size_) => total + size_, 0);
    let base = 0;
    const outlines = [...found.held].map((columns) => { const row = { from: base, size: columns, kind: "held", name: `allocation of ${columns} columns` }; base += columns; return row; });
    strip(get("tmem"), 512, true, [...(over ? [] : outlines), ...found.parts.map(([name, from, columns, half, scales]) => (
      { from, size: columns, half, kind: over ? "warn" : scales ? "ink" : "accent", name: `${name}: ${columns} columns at ${from}` }))], "columns of Tensor Memory");
    if (over) say(answer, [`${found.columns} of 512 columns`, "bad"], `: ${found.misfit.replace(/\n\s*/g, "; ")}`);
    else say(answer, [`${found.columns} of 512 columns`], `, allocated ${found.held.join(" + ")} = ${held}; the pool holds ${plural(found.ctas, "such CTA")}; data path ${found.path}; `
      + found.parts.map(([name, , columns]) => `${name} ${columns}`).join(", "));
    get("tmem-command").textContent = command(m, n, g);
  }
  function command(m, n, g) {
    const format = get("format").value, scaled = /^(mx|nv)/.test(format);
    return `mmalab plan tmem --mma ${m}x${n} ${scaled ? "--scales" : "--dtype"} ${format} --stages ${get("stages").value}${+g > 1 ? ` --cta-group ${g}` : ""}`;
  }
  function shared(key) {
    const target = get("target").value, format = get("format").value, [m, n, g] = key.split("x");
    const found = plans.shared[`${key} ${format} ${get("depth").value} ${target}`], answer = get("smem-answer");
    refuse(answer, found.refused);
    if (found.refused) { get("smem").replaceChildren(); get("smem-command").textContent = ""; return; }
    const kinds = { A: "accent", B: "soft" };
    const parts = found.members.flatMap(([name, offset, bytes, count]) => Array.from({ length: count }, (_, i) => (
      { from: offset + i * bytes, size: bytes, kind: kinds[name] || "ink", name: `${name}[${i}]: ${bytes.toLocaleString("en")} bytes` })));
    strip(get("smem"), found.limit, false, parts, "shared memory of a CTA");
    say(answer, [found.misfit ? "no stage fits" : plural(found.stages, "stage"), found.misfit ? "bad" : ""],
      ` of ${found.stage.toLocaleString("en")} bytes (K = ${found.k}): ${found.bytes.toLocaleString("en")} of ${found.limit.toLocaleString("en")} bytes a CTA may have; swizzle ${found.swizzle}`);
    get("smem-command").textContent = `mmalab plan smem --tile ${m}x${n}x${found.k} --dtype ${format} --stages ${Math.max(1, found.stages)} --target ${target}${+g > 1 ? ` --cta-group ${g}` : ""}`;
  }
  function draw() { const key = get("size").value; ledger(key); shared(key); }
  ["size", "format", "stages", "depth", "target"].forEach((name) => get(name).addEventListener("change", draw));
  draw();
})();
