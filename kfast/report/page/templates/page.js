"use strict";
// Draws every figure where its element stands. Colours of text and lines are the style's, so that
// they follow the theme, and paper.
(() => {
  const figures = JSON.parse(document.getElementById("kfast-figures").textContent);
  const scale = (element) => {
    // In print the drawing is scaled to the page, which only a view box allows.
    for (const svg of element.querySelectorAll("svg.main-svg")) {
      svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    }
  };
  const draw = (element) => {
    const drawing = figures[element.dataset.figure];
    Plotly.newPlot(element, drawing.data, drawing.layout, {
      displayModeBar: false, responsive: true, scrollZoom: false,
    }).then(() => {
      scale(element);
      element.on("plotly_afterplot", () => scale(element));
    });
  };
  document.querySelectorAll(".plot").forEach(draw);
  // Nothing stays folded on paper.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => {
    folded.forEach((details) => { details.open = false; });
  });
})();
