// Tensor copies: the chunks of a box, and where each lands; pointing at one marks it in both.
(() => {
  const all = DATA.boxes, get = (name) => $(`box-${name}`);
  menu(get("dtype"), all.dtypes.map((d) => [d, d]), "f16");
  menu(get("inner"), all.inner.map((b) => [b, `${b} bytes`]), 128);
  menu(get("swizzle"), all.swizzles.map((s) => [s, s]), "128B");
  let found = null, general = "";

  function draw() {
    found = all.boxes[`${get("dtype").value} ${get("inner").value} ${get("swizzle").value}`];
    get("command").textContent = found.command;
    refuse(get("answer"), found.refused);
    get("pair").hidden = Boolean(found.refused);
    if (found.refused) return;
    const width = found.offsets[0].length, from = [], held = new Map();
    found.offsets.forEach((line, r) => {
      from.push({ text: `row ${r}`, kind: "label" });
      line.forEach((offset, c) => { from.push({ text: `${r},${c}`, key: `${r},${c}`, hint: `lands at byte ${offset}` }); held.set(offset, `${r},${c}`); });
    });
    cells(get("from"), width + 1, from);
    const to = [];
    for (let offset = 0; offset < found.span || offset % 128; offset += 16) {
      const key = held.get(offset);
      to.push(key === undefined ? { text: "", kind: "empty", hint: `byte ${offset}: not written` } : { text: key, key, hint: `byte ${offset}` });
    }
    cells(get("to"), 8, to);
    general = `box ${found.box} (innermost first): the mbarrier expects ${found.bytes.toLocaleString("en")} bytes, in ${found.span.toLocaleString("en")} bytes of shared memory`;
    say(get("answer"), general);
  }
  function point(event) {
    const key = event.target.dataset && event.target.dataset.key;
    if (!key || found.refused) return;
    document.querySelectorAll("#box-pair .same").forEach((cell) => cell.classList.remove("same"));
    document.querySelectorAll(`#box-pair [data-key="${key}"]`).forEach((cell) => cell.classList.add("same"));
    const [row, chunk] = key.split(",").map(Number), offset = found.offsets[row][chunk];
    say(get("answer"), [`row ${row}, chunk ${chunk}`], ` lands at byte ${offset}: line ${Math.floor(offset / 128)}, banks ${(offset % 128) / 4} to ${(offset % 128) / 4 + 3}`);
  }
  for (const type of ["pointerover", "focusin", "click"]) get("pair").addEventListener(type, point);
  ["dtype", "inner", "swizzle"].forEach((name) => get(name).addEventListener("change", draw));
  draw();
})();
