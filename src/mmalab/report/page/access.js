// Banks: the memory of a tile, 128 bytes a line, with one access marked.
(() => {
  const pitch = $("access-pitch"), how = $("access-how"), kind = $("access-kind"), which = $("access-which");
  const rows = DATA.access, words = (row) => row.pad ? `padded by ${row.pad} bytes` : row.swizzle === "none" ? "plain" : `swizzle ${row.swizzle}`;
  const key = (row) => `${row.swizzle} ${row.pad}`;
  menu(pitch, [...new Set(rows.map((row) => row.pitch))].map((p) => [p, `${p} bytes`]), 64);
  menu(how, rows.filter((row) => row.pitch === 64).map((row) => [key(row), words(row)]), "none 0");

  function draw() {
    const row = rows.find((r) => r.pitch === +pitch.value && key(r) === how.value);
    const list = row[kind.value], before = Math.min(+which.value || 0, list.length - 1);
    menu(which, list.map((_, i) => [i, kind.value === "ldmatrix" ? `chunk ${i}` : `chunks ${8 * i} to ${8 * i + 7}`]), before);
    const access = list[before];
    const turns = new Map(access.chunks.map(([r, c], i) => [`${r},${c}`, access.turns[i]]));
    const held = new Map();
    row.places.forEach((line, r) => line.forEach((address, c) => held.set(address, `${r},${c}`)));
    const last = Math.max(...held.keys()), drawn = [];
    for (let group = 0; group < 8; group++) drawn.push({ text: `${4 * group}-${4 * group + 3}`, kind: "head", hint: "banks" });
    for (let address = 0; address <= last || address % 128; address += 16) {
      const name = held.get(address), turn = turns.get(name);
      drawn.push(name === undefined ? { text: "", kind: "empty", hint: "padding" } : {
        text: turn ? `${name}  \u00b7${turn}` : name, kind: turn ? (turn > 1 ? "late" : "hit") : "",
        hint: `row ${name.split(",")[0]}, chunk ${name.split(",")[1]}: bytes ${address} to ${address + 15}${turn ? `, wavefront ${turn}` : ""}` });
    }
    cells($("access-cells"), 8, drawn);
    say($("access-answer"), [plural(access.passes, "wavefront"), access.passes > access.ideal ? "bad" : ""],
      `, ${access.ideal} without conflicts; bank groups ${access.groups.join(" ")}` + (row.swizzle === "none" ? "" : `; ${row.function} on byte addresses`));
    $("access-command").textContent = row.command;
  }
  [pitch, how, kind, which].forEach((select) => select.addEventListener("change", draw));
  draw();
})();
