// The theme that was chosen, before anything is painted.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("ballast-theme");
    if (chosen === "light" || chosen === "dark") {
      document.documentElement.dataset.theme = chosen;
    }
  } catch (_) {
    // No storage: the system's theme it is.
  }
})();
