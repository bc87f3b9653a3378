"use strict";
// Colours: automatic, light, dark. The choice is kept where the browser allows it.
(() => {
  const button = document.getElementById("theme");
  const choices = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("mmalab-theme") || "auto"; } catch { return "auto"; } };
  const apply = (choice) => {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.querySelector(".word").textContent = choice;
    button.setAttribute("aria-label", `Colours: ${choice === "auto" ? "automatic" : choice}`);
    document.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    const next = choices[(choices.indexOf(read()) + 1) % choices.length];
    try { localStorage.setItem("mmalab-theme", next); } catch { /* a page from a file may have no store */ }
    apply(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
    () => document.dispatchEvent(new Event("themechange")));
  apply(read());
})();
