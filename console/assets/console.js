// Live updates, charts and form helpers. Every page works without this script.
(() => {
  "use strict";

  // --- the theme ---------------------------------------------------------
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const chosen = () => root.dataset.theme || "auto";
  const name = () => {
    button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[chosen()];
    button.setAttribute("aria-label", `Theme: ${chosen()}. Change theme`);
  };
  if (button) {
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      const next = themes[(themes.indexOf(chosen()) + 1) % themes.length];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      try {
        localStorage.setItem("ballast-theme", next);
      } catch (_) {
        // Without storage it applies to this page only.
      }
      name();
      document.dispatchEvent(new Event("ballast-theme"));
    });
  }

  // --- tooltips of blocks and bars ------------------------------------------
  const tip = document.getElementById("tip");
  const tipped = (event) => event.target.closest && event.target.closest("[data-tip]");
  if (tip) {
    document.addEventListener("pointermove", (event) => {
      const over = tipped(event);
      tip.hidden = !over;
      if (!over) return;
      tip.textContent = over.dataset.tip;
      const { clientX: x, clientY: y } = event;
      tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - 10 - tip.offsetHeight : y + 18}px`;
    });
    document.addEventListener("pointerleave", () => (tip.hidden = true));
  }
  document.addEventListener("click", (event) => {
    const to = event.target.closest && event.target.closest("svg [data-href]");
    if (to) location.assign(to.dataset.href);
    const copy = event.target.closest && event.target.closest("[data-copy]");
    if (copy && navigator.clipboard) {
      const from = document.getElementById(copy.dataset.copy);
      navigator.clipboard.writeText(from.textContent.trim()).then(() => (copy.textContent = "Copied"));
    }
  });

  // --- forms: submitted once; "/" focuses the search --------------------------
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) return event.preventDefault();
    form.dataset.sent = "yes";
    for (const sends of form.querySelectorAll("button[type=submit]")) sends.disabled = true;
  });
  // Forms of a page restored from the back/forward cache can be submitted again.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      for (const sends of form.querySelectorAll("button[type=submit]")) sends.disabled = false;
    }
  });
  // Moving the replay slider submits its form.
  document.addEventListener("change", (event) => {
    const form = event.target.closest && event.target.closest("form[data-scrub]");
    if (form && event.target.type === "range") form.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|textarea|select)$/i.test(event.target.tagName);
    const search = document.querySelector("input[type=search]");
    if (event.key === "/" && !typing && search) {
      event.preventDefault();
      search.focus();
    }
  });

  // --- charts ----------------------------------------------------------------
  const colour = (number) => getComputedStyle(root).getPropertyValue(`--c${(number % 8) + 1}`).trim();
  const ink = (token) => getComputedStyle(root).getPropertyValue(token).trim();
  const charts = new Map();
  const resolve = (value) => {
    // Canvas does not support light-dark(), so a real element resolves the colour.
    const probe = document.createElement("i");
    probe.style.color = value;
    document.body.append(probe);
    const shown = getComputedStyle(probe).color;
    probe.remove();
    return shown;
  };
  // All times are UTC, as on all pages.
  const stamp = (seconds) => new Date(seconds * 1000).toISOString();
  const clock = (plot, at, _axis, _space, step) => {
    const { min, max } = plot.scales.x;
    const [from, to] = step >= 86400 ? [5, 10] : max - min > 86400 ? [5, 16] : step >= 60 ? [11, 16] : [11, 19];
    return at.map((seconds) => stamp(seconds).slice(from, to).replace("T", " "));
  };
  const wide = (place) => Math.max(200, place.clientWidth);
  const draw = (place, data) => {
    const held = charts.get(place);
    if (held) held.plot.destroy();
    const axis = { stroke: resolve(ink("--ink-soft")), grid: { stroke: resolve(ink("--line")), width: 1 }, ticks: { show: false } };
    const options = {
      width: wide(place),
      height: Number(place.dataset.height || 210),
      cursor: { y: false },
      // Room for half of the last tick's label.
      padding: [null, 28, null, null],
      legend: { live: true },
      scales: {
        // A single point is drawn in the middle of a minute.
        x: { range: (plot, low, high) => (plot.data[0].length < 2 ? [low - 30, low + 30] : [low, high]) },
        y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] },
      },
      axes: [{ ...axis, space: 84, values: clock }, { ...axis, size: 56 }],
      series: [{ label: "Time (UTC)", value: (_, at) => (at ? stamp(at).slice(0, 19).replace("T", " ") : "—") }].concat(
        data.labels.map((label, number) => ({ label, stroke: resolve(colour(number)), width: 1.6, points: { show: data.x.length < 3 } })),
      ),
    };
    const plot = new window.uPlot(options, [data.x, ...data.y], place);
    charts.set(place, { plot, data });
  };
  const place = (chart) => document.querySelector(`[data-chart="${chart}"]`);
  const begin = (all) => {
    for (const [chart, data] of Object.entries(all)) {
      const at = place(chart);
      if (at && window.uPlot && data.labels.length) draw(at, data);
    }
  };
  const add = (all) => {
    for (const [chart, row] of Object.entries(all)) {
      const held = charts.get(place(chart));
      if (!held || row.length !== held.data.y.length + 1) continue;
      const { data, plot } = held;
      data.x.push(row[0]);
      data.y.forEach((line, number) => line.push(row[number + 1]));
      if (data.x.length > 300) [data.x, ...data.y].forEach((line) => line.shift());
      plot.setData([data.x, ...data.y]);
    }
  };
  const redraw = () => {
    for (const [at, { data }] of [...charts]) draw(at, data);
  };
  document.addEventListener("ballast-theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", () => {
    for (const [at, { plot }] of charts) plot.setSize({ width: wide(at), height: plot.height });
  });
  const drawAll = (within) => {
    for (const at of within.querySelectorAll("[data-series]")) {
      try {
        const data = JSON.parse(at.dataset.series);
        if (window.uPlot && data.labels.length) draw(at, data);
      } catch (_) {
        // The chart is skipped; the figures are on the page as text.
      }
    }
  };
  drawAll(document);

  // --- slow parts are loaded after the page -----------------------------------
  for (const at of document.querySelectorAll("[data-part]")) {
    (async () => {
      at.setAttribute("aria-busy", "true");
      try {
        const answer = await fetch(at.dataset.part, { headers: { "x-part": "yes" } });
        // A redirect means that the session has expired; the link stays.
        if (answer.ok && !answer.redirected) {
          at.innerHTML = await answer.text();
          drawAll(at);
        }
      } catch (_) {
        // The link stays.
      }
      at.removeAttribute("aria-busy");
    })();
  }

  // --- live updates -----------------------------------------------------------
  // A part is not replaced while a field or an open form in it is in use; its newest
  // version is applied afterwards.
  const shown = new Map();
  const pending = new Map();
  let pressed = null;
  const fields = "input, select, textarea";
  const inUse = (at, next) => {
    if (pressed && at.contains(pressed)) return true;
    const boxes = [...at.querySelectorAll("details.verb[open]")];
    // A form whose action is no longer offered does not block the update.
    const still = (box) => {
      const form = box.querySelector("form");
      return !form || next.querySelector(`form[action="${CSS.escape(form.getAttribute("action"))}"]`);
    };
    if (boxes.some(still)) return true;
    const here = document.activeElement;
    return at.contains(here) && here.matches(fields) && !here.closest("details.verb");
  };
  // Rows may be reordered: a row is identified by its first link.
  const rowOf = (element) => {
    const first = element.closest("tr")?.querySelector("td:first-child a[href]");
    return first ? `tr:has(td:first-child a[href="${CSS.escape(first.getAttribute("href"))}"]) ` : "";
  };
  // A selector that finds an element again in the new version.
  const selectorOf = (element) => {
    if (element.id) return `#${CSS.escape(element.id)}`;
    for (const name of ["href", "aria-label", "data-href"]) {
      const value = element.getAttribute(name);
      if (value) return `${rowOf(element)}${element.tagName.toLowerCase()}[${name}="${CSS.escape(value)}"]`;
    }
    const form = element.matches("summary") && element.parentElement.querySelector("form[action]");
    return form ? `details:has(form[action="${CSS.escape(form.getAttribute("action"))}"]) > summary` : null;
  };
  const saveState = (at) => {
    const here = document.activeElement;
    const focus = here !== at && at.contains(here) ? selectorOf(here) : null;
    const open = [...at.querySelectorAll("details")].map((one) => one.open);
    const rolled = [...at.querySelectorAll(".scroll, pre")].map((one) => [one.scrollLeft, one.scrollTop]);
    return () => {
      [...at.querySelectorAll("details")].forEach((one, number) => {
        if (open[number] && !one.matches(".verb")) one.open = true;
      });
      [...at.querySelectorAll(".scroll, pre")].forEach((one, number) => {
        if (rolled[number]) [one.scrollLeft, one.scrollTop] = rolled[number];
      });
      const again = focus && at.querySelector(focus);
      if (again) again.focus({ preventScroll: true });
    };
  };
  const put = (id, text) => {
    pending.delete(id);
    const at = document.getElementById(id);
    if (!at || shown.get(id) === text) return;
    const next = document.createElement("template");
    next.innerHTML = text;
    if (inUse(at, next.content)) return void pending.set(id, text);
    const restore = saveState(at);
    for (const [place, { plot }] of [...charts]) {
      if (!at.contains(place)) continue;
      plot.destroy();
      charts.delete(place);
    }
    at.replaceChildren(next.content);
    shown.set(id, text);
    restore();
    drawAll(at);
  };
  const patch = (parts) => Object.entries(parts).forEach(([id, text]) => put(id, text));
  const catchUp = () => [...pending].forEach(([id, text]) => put(id, text));
  document.addEventListener("focusout", () => setTimeout(catchUp));
  document.addEventListener("toggle", () => setTimeout(catchUp), true);
  // A click needs press and release on the same element.
  document.addEventListener("pointerdown", (event) => (pressed = event.target));
  for (const done of ["pointerup", "pointercancel"]) {
    document.addEventListener(done, () =>
      setTimeout(() => {
        pressed = null;
        catchUp();
      }),
    );
  }

  const stream = document.body.dataset.live;
  const pulse = document.getElementById("pulse");
  const beat = (alive) => {
    if (!pulse) return;
    pulse.hidden = false;
    pulse.classList.toggle("away", !alive);
    pulse.textContent = alive ? "live" : "reconnecting";
  };
  let retryMs = 2000;
  let source = null;
  const listen = () => {
    source = new EventSource(stream);
    const on = (event, act) => source.addEventListener(event, (message) => act(JSON.parse(message.data)));
    source.addEventListener("open", () => {
      retryMs = 2000;
      beat(true);
    });
    on("patch", patch);
    on("charts", begin);
    on("sample", add);
    source.addEventListener("end", () => {
      source.close();
      if (pulse) pulse.hidden = true;
    });
    // The session has expired or the link was removed: the reloaded page says so.
    source.addEventListener("over", () => {
      source.close();
      location.reload();
    });
    source.addEventListener("error", () => {
      beat(false);
      if (source.readyState !== EventSource.CLOSED) return;
      // Rejected: the session may have expired, or the stream limit is reached.
      setTimeout(async () => {
        try {
          const page = await fetch(location.href, { redirect: "manual" });
          const gone = page.status >= 400 && page.status < 500;
          if (gone || page.type === "opaqueredirect") return location.reload();
        } catch (_) {
          // The server is unreachable: retry.
        }
        listen();
      }, retryMs);
      retryMs = Math.min(retryMs * 2, 30000);
    });
  };
  if (stream && window.EventSource) {
    listen();
    addEventListener("pagehide", () => source.close());
    // A page restored from the back/forward cache reconnects.
    addEventListener("pageshow", (event) => event.persisted && listen());
  }
})();
