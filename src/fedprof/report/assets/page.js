"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const plots = read("plots");
  const colours = read("colours");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const off = new Set();
  const box = (number) => document.getElementById(`plot-${number}`);
  const PRINT_WIDTH = { pair: 320, single: 670 };

  const painted = (value, palette) => {
    if (typeof value === "string") return value[0] === "@" ? palette[value.slice(1)] : value;
    if (Array.isArray(value)) return value.map((part) => painted(part, palette));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, painted(part, palette)]));
  };

  const axis = (given, night) => ({
    automargin: true, zeroline: false, ticks: "outside", ticklen: 4, fixedrange: false, showline: true,
    linecolor: night ? "#5b6470" : "#9aa1ab", tickcolor: night ? "#5b6470" : "#9aa1ab", gridcolor: night ? "#262b32" : "#eceff2",
    ...given, title: { standoff: 8, ...(given || {}).title },
  });

  const layout = (given, night) => {
    const ink = night ? "#e8eaed" : "#1b1f24";
    const family = getComputedStyle(document.documentElement).getPropertyValue("--sans");
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: "zoom",
      margin: { l: 56, r: 18, t: 10, b: 44 }, font: { family, size: 12, color: ink },
      hoverlabel: { bgcolor: night ? "#262b32" : "#ffffff", bordercolor: night ? "#5b6470" : "#c9ced6", font: { color: ink, size: 12 } },
      ...given, xaxis: axis(given.xaxis, night), yaxis: axis(given.yaxis, night),
    };
  };

  const options = { responsive: true, displayModeBar: false };

  const draw = (paper, width) => {
    const night = dark.matches && !paper;
    const palette = colours[night ? "dark" : "light"];
    return Promise.all(plots.map((plot, number) => {
      const place = box(number);
      const data = painted(plot.data, palette).map((trace) => ({ ...trace, visible: !off.has(trace.meta) }));
      const size = width ? { width: width(place) } : {};
      return Plotly.react(place, data, { ...painted(layout(plot.layout, night), palette), ...size }, options);
    }));
  };

  const show = (label, wanted) => {
    off[wanted ? "delete" : "add"](label);
    const about = (name) => document.querySelectorAll(`[data-${name}="${CSS.escape(label)}"]`);
    about("switch").forEach((button) => button.setAttribute("aria-pressed", String(wanted)));
    about("row").forEach((row) => row.classList.toggle("off", !wanted));
    about("panel").forEach((panel) => panel.classList.toggle("hidden", !wanted));
    return Promise.all(plots.map((plot, number) => {
      const mine = plot.data.flatMap((trace, index) => (trace.meta === label ? [index] : []));
      const place = box(number);
      const changed = mine.length ? Plotly.restyle(place, { visible: wanted }, mine) : Promise.resolve();
      return changed.then(() => (wanted && place.offsetWidth ? Plotly.Plots.resize(place) : undefined));
    }));
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-switch]");
    if (button) show(button.dataset.switch, button.getAttribute("aria-pressed") !== "true");
  });
  dark.addEventListener("change", () => draw(false));
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
    draw(true, (place) => {
      const whole = place.closest(".single") || place.parentElement.matches(":only-child");
      return PRINT_WIDTH[whole ? "single" : "pair"];
    });
  });
  window.addEventListener("afterprint", () => {
    folded.forEach((details) => { details.open = false; });
    draw(false);
  });
  draw(false).then(() => { document.documentElement.dataset.drawn = String(plots.length); });
})();
