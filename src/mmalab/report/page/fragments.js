// Fragments: two canvases that show one table, by element and by lane. The table is the row's own.
(() => {
  const NOBODY = 0xffff;
  const form = $("fragment-form"), operand = $("fragment-operand");
  const canvases = { matrix: $("fragment-matrix"), lanes: $("fragment-lanes") };
  const inputs = { row: $("fragment-row"), col: $("fragment-col"), thread: $("fragment-thread") };
  let now = null;      // the operand with its index unpacked
  let at = null;       // {thread, slot}: what is selected
  let whole = false;   // whether a lane was asked for, not an element

  const unpack = (text) => {
    const raw = atob(text), found = new Uint16Array(raw.length / 2);
    for (let i = 0; i < found.length; i++) found[i] = raw.charCodeAt(2 * i) | (raw.charCodeAt(2 * i + 1) << 8);
    return found;
  };
  const place = (element) => {
    const size = now.rows * now.cols;
    return { row: element % now.rows, col: Math.floor(element / now.rows) % now.cols, matrix: Math.floor(element / size) };
  };
  const nameOf = (thread) => {
    if (now.memory) return (now.threads > 128 ? `CTA ${thread >> 7}, ` : "") + `lane ${thread & 127}`;
    return now.threads > 32 ? `thread ${thread} (${DATA.names[thread]})` : `lane ${thread}`;
  };

  function choose() {
    const row = DATA.fragments[form.selectedIndex];
    const before = operand.value;
    menu(operand, row.operands.map((o) => [o.operand, o.words]), before);
    if (!row.operands.some((o) => o.operand === before)) operand.value = row.operands.at(-1).operand;
    load();
  }

  function load() {
    now = { ...DATA.fragments[form.selectedIndex].operands[operand.selectedIndex] };
    now.index = unpack(now.index);
    now.width = now.slots.length;
    // Where each element is held: the first (thread, slot) of every one.
    now.home = new Map();
    now.index.forEach((element, i) => { if (element !== NOBODY && !now.home.has(element)) now.home.set(element, i); });
    inputs.row.max = now.rows - 1;
    inputs.col.max = now.cols - 1;
    inputs.thread.max = now.threads - 1;
    $("fragment-thread-name").textContent = now.threads > 32 && !now.memory ? "thread" : "lane";
    $("fragment-matrix-title").textContent = `${now.words}: ${now.matrices > 1 ? `${now.matrices} of ` : ""}${now.rows} x ${now.cols}, ${now.type}`;
    $("fragment-lanes-title").textContent = now.memory ? `Tensor Memory: ${now.threads} lanes, ${now.registers} columns`
      : `${now.threads} ${now.threads > 32 ? "threads" : "lanes"}, ${plural(now.registers, "register")} each`;
    find(Math.min(+inputs.row.value, now.rows - 1), Math.min(+inputs.col.value, now.cols - 1));
  }

  function find(row, col, matrix = 0) {
    const home = now.home.get(row + now.rows * (col + now.cols * matrix));
    if (home === undefined) return;
    whole = false;
    select(Math.floor(home / now.width), home % now.width);
  }

  function select(thread, slot) {
    at = { thread, slot };
    const element = now.index[thread * now.width + slot];
    if (element !== NOBODY) {
      const p = place(element);
      inputs.row.value = p.row;
      inputs.col.value = p.col;
    }
    inputs.thread.value = thread;
    tell(element);
    draw();
  }

  function tell(element) {
    const answer = $("fragment-answer"), { thread, slot } = at;
    const base = DATA.fragments[form.selectedIndex].operands[operand.selectedIndex].command;
    if (whole) {
      const held = new Set();
      for (let s = 0; s < now.width; s++) if (now.index[thread * now.width + s] !== NOBODY) held.add(now.index[thread * now.width + s]);
      const first = [...held].slice(0, 8).map((e) => { const p = place(e); return `${now.matrices > 1 ? `matrix ${p.matrix} ` : ""}[${p.row}][${p.col}]`; });
      say(answer, [nameOf(thread)], held.size ? ` holds ${plural(held.size, "element")} of ${now.operand}: ${first.join(", ")}${held.size > 8 ? " ..." : ""}` : " holds nothing of it");
      $("fragment-command").textContent = now.memory ? base : `${base} --lane ${thread}`;
      return;
    }
    if (element === NOBODY) { say(answer, [nameOf(thread)], ` has nothing in column ${slot}`); return; }
    const p = place(element), [register, high, low, byte] = now.slots[slot];
    const what = `${now.operand}[${p.row}][${p.col}]${now.matrices > 1 ? ` of matrix ${p.matrix}` : ""}`;
    if (now.memory) say(answer, [what], " is in ", [nameOf(thread)], `, column ${register}; warp ${now.reach[thread & 127]} of a warpgroup reaches it`);
    else say(answer, [what], " is in ", [nameOf(thread)], `, slot ${slot}: register ${register}, bits ${high}:${low}, byte ${byte} of its ${now.registers * 4}`,
      now.copies > 1 ? ` (${now.copies} copies)` : "");
    $("fragment-command").textContent = now.memory ? base : `${base} --at ${p.row},${p.col}`;
  }

  // --- drawing: cells of a size that fits, the selected element, and all that its lane holds -------
  function size(canvas, columns, rows, mostHigh) {
    const room = Math.min(canvas.parentElement.clientWidth || 320, 560);
    const wide = Math.max(3, Math.min(52, Math.floor(room / columns)));
    const high = Math.max(2, Math.floor(Math.min(wide, 26, mostHigh / rows)));
    const scale = devicePixelRatio || 1;
    canvas.style.width = `${columns * wide}px`;
    canvas.style.height = `${rows * high}px`;
    canvas.width = columns * wide * scale;
    canvas.height = rows * high * scale;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    canvas.cell = { wide, high };
    return pen;
  }

  function draw() {
    const look = { well: colour("well"), held: colour("held"), accent: colour("accent"), soft: colour("accent-soft"), mid: colour("accent-mid"),
      ink: colour("ink"), bg: colour("bg"), on: colour("on-accent") };
    const chosen = now.index[at.thread * now.width + at.slot];
    const across = now.matrices > 1 ? 2 : 1;
    const columns = across * now.cols + (across - 1), rows = Math.ceil(now.matrices / across) * (now.rows + 1) - 1;
    const pens = { matrix: size(canvases.matrix, columns, rows, 640), lanes: size(canvases.lanes, now.width, now.threads, 640) };
    const one = (canvas, pen, x, y, thread, slot, element, label, joined) => {
      const { wide, high } = canvas.cell, small = wide < 9 || high < 9, gap = small ? 0 : 1;
      const mine = thread === at.thread, shade = (thread >> (now.memory ? 5 : 2)) & 1;
      const hit = element === chosen && element !== NOBODY && !whole;
      pen.fillStyle = element === NOBODY ? look.bg : hit ? look.accent : mine ? (small ? look.mid : look.soft) : shade ? look.held : look.well;
      pen.fillRect(x * wide, y * high, wide - (joined ? 0 : gap), high - gap);
      if (wide < 30 || high < 12 || element === NOBODY) return;
      pen.fillStyle = hit ? look.on : look.ink;
      pen.font = "11px ui-monospace, monospace";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(label, x * wide + wide / 2 - 0.5, y * high + high / 2, wide - 4);
    };
    for (const [element, home] of now.home) {
      const p = place(element), thread = Math.floor(home / now.width), slot = home % now.width;
      const x = (p.matrix % across) * (now.cols + 1) + p.col, y = Math.floor(p.matrix / across) * (now.rows + 1) + p.row;
      one(canvases.matrix, pens.matrix, x, y, thread, slot, element, `${thread}:${slot}`);
    }
    for (let thread = 0; thread < now.threads; thread++) for (let slot = 0; slot < now.width; slot++) {
      const element = now.index[thread * now.width + slot], p = place(element);
      // Elements of one register are one box.
      const joined = slot + 1 < now.width && now.slots[slot + 1][0] === now.slots[slot][0];
      one(canvases.lanes, pens.lanes, slot, thread, thread, slot, element, `${p.row},${p.col}`, joined);
    }
  }

  // --- pointing: a canvas position to a cell, and keys ----------------------------------------------
  function pointed(canvas, event) {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientX - box.left) / canvas.cell.wide), Math.floor((event.clientY - box.top) / canvas.cell.high)];
  }
  function onMatrix(event) {
    const [x, y] = pointed(canvases.matrix, event), across = now.matrices > 1 ? 2 : 1;
    const col = x % (now.cols + 1), row = y % (now.rows + 1);
    const matrix = Math.floor(y / (now.rows + 1)) * across + Math.floor(x / (now.cols + 1));
    if (col < now.cols && row < now.rows && matrix < now.matrices) find(row, col, matrix);
  }
  function onLanes(event) {
    const [slot, thread] = pointed(canvases.lanes, event);
    if (slot < 0 || thread < 0 || slot >= now.width || thread >= now.threads) return;
    whole = event.type === "click";
    select(thread, slot);
  }
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const wrap = (value, count) => (value + count) % count;
  canvases.matrix.addEventListener("keydown", (event) => {
    const step = move[event.key];
    if (!step) return;
    event.preventDefault();
    find(wrap(+inputs.row.value + step[1], now.rows), wrap(+inputs.col.value + step[0], now.cols));
  });
  canvases.lanes.addEventListener("keydown", (event) => {
    const step = move[event.key];
    if (!step) return;
    event.preventDefault();
    whole = false;
    select(wrap(at.thread + step[1], now.threads), wrap(at.slot + step[0], now.width));
  });
  for (const type of ["pointermove", "click"]) {
    canvases.matrix.addEventListener(type, onMatrix);
    canvases.lanes.addEventListener(type, onLanes);
  }
  const typed = () => find(Math.min(+inputs.row.value, now.rows - 1), Math.min(+inputs.col.value, now.cols - 1));
  inputs.row.addEventListener("input", typed);
  inputs.col.addEventListener("input", typed);
  inputs.thread.addEventListener("input", () => { whole = true; select(Math.min(+inputs.thread.value, now.threads - 1), 0); });
  form.addEventListener("change", choose);
  operand.addEventListener("change", load);
  document.addEventListener("themechange", draw);
  addEventListener("resize", draw);

  const families = {};
  DATA.fragments.forEach((row, i) => { (families[row.family] ||= []).push([i, row.form]); });
  menu(form, families, 0);
  choose();
  operand.value = "D";
  load();
})();
