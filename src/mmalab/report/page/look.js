// What the explorer's tools share: the data, menus, colours.
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function menu(select, options, chosen) {
  // options: [value, words] pairs, or {group: pairs}
  select.replaceChildren();
  const add = (parent, [value, words]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = words;
    option.selected = String(value) === String(chosen);
    parent.append(option);
  };
  if (Array.isArray(options)) { options.forEach((pair) => add(select, pair)); return; }
  for (const [name, pairs] of Object.entries(options)) {
    const group = document.createElement("optgroup");
    group.label = name;
    pairs.forEach((pair) => add(group, pair));
    select.append(group);
  }
}

function say(element, ...parts) {
  // Strings are text; [word, class] is emphasised.
  element.replaceChildren(...parts.map((part) => {
    if (typeof part === "string") return part;
    const b = document.createElement(part[1] ? "span" : "b");
    if (part[1]) b.className = part[1];
    b.textContent = part[0];
    return b;
  }));
}

function refuse(element, words) {
  element.classList.toggle("refused", Boolean(words));
  if (words) element.textContent = words;
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function cells(box, columns, list) {
  // list: {text, kind, hint, key}; a cell with a key can be asked
  box.style.gridTemplateColumns = `repeat(${columns}, auto)`;
  box.replaceChildren(...list.map(({ text, kind, hint, key }) => {
    const cell = document.createElement("div");
    cell.textContent = text;
    if (kind) cell.className = kind;
    if (hint) cell.title = hint;
    if (key !== undefined) { cell.dataset.key = key; cell.tabIndex = 0; }
    return cell;
  }));
}

function strip(box, total, lanes, parts, words) {
  // parts: {from, size, kind, name, half}; half: 0 both rows, 1 the upper, 2 the lower
  const width = 1000, height = lanes ? 44 : 36;
  const shape = (tag, attributes, inner) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (inner) made.append(inner);
    return made;
  };
  const titled = (words_) => { const t = shape("title", {}); t.textContent = words_; return t; };
  const most = Math.max(total, ...parts.map((p) => p.from + p.size));
  const x = (value) => (value / most) * width;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img", "aria-label": words });
  svg.append(shape("rect", { x: 0, y: 0, width: x(total), height, class: "well" }));
  for (const part of parts) {
    const y = part.half === 2 ? height / 2 : 0;
    svg.append(shape("rect", { x: x(part.from), y, width: Math.max(1.5, x(part.size)), height: part.half ? height / 2 : height,
      class: `${part.kind} edge` }, titled(part.name)));
  }
  if (most > total) svg.append(shape("line", { x1: x(total), x2: x(total), y1: 0, y2: height, class: "limit" }));
  box.replaceChildren(svg);
}
