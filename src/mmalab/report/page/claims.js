// Claims: hide what the search and the boxes leave out.
(() => {
  const rows = [...document.querySelectorAll(".claim")];
  const search = document.getElementById("claim-search");
  const boxes = [...document.querySelectorAll("#claim-filters input[type=checkbox]")];
  const count = document.getElementById("claim-count");
  const wanted = (name) => new Set(boxes.filter((b) => b.name === name && b.checked).map((b) => b.value));
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const articles = wanted("article"), verdicts = wanted("verdict");
    let shown = 0;
    for (const row of rows) {
      const keep = articles.has(row.dataset.article) && verdicts.has(row.dataset.verdict) &&
        words.every((word) => row.dataset.text.includes(word));
      row.hidden = !keep;
      shown += keep;
    }
    count.textContent = `${shown} of ${rows.length} claims`;
  };
  search.addEventListener("input", apply);
  boxes.forEach((box) => box.addEventListener("change", apply));
  document.getElementById("claim-reset").addEventListener("click", () => {
    search.value = "";
    boxes.forEach((box) => { box.checked = true; });
    apply();
  });
  document.getElementById("claim-corrections").addEventListener("click", () => {
    boxes.forEach((box) => { if (box.name === "verdict") box.checked = ["false", "changed", "imprecise"].includes(box.value); });
    apply();
  });
  const follow = () => {
    const target = /^#[\w-]+$/.test(location.hash) && document.querySelector(location.hash);
    if (target && target.matches("details")) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();
})();
