// Applies the chosen theme before the first paint.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("ballast-theme");
    if (chosen === "light" || chosen === "dark") {
      document.documentElement.dataset.theme = chosen;
    }
  } catch (_) {
    // Without storage the system's theme applies.
  }
})();
