// The results as they stand, asked for again every few seconds; all that is shown was escaped.
"use strict";

const EVERY = 3000;
const element = (id) => document.getElementById(id);
let serial = -1;

const tell = (state) => {
  element("number").textContent =
    `${state.answers.toLocaleString("en")} answers, of which the ranking knows ` +
    `${state.learned.toLocaleString("en")}.${state.learning && state.learned < state.answers ? " Learning …" : ""}`;
  element("settled").textContent =
    state.settled === null
      ? ""
      : `Chance that the first ${state.top} are settled: ${Math.round(100 * state.settled)} %.`;
  element("problem").textContent = state.problem;
  if (state.html === null) return;
  serial = state.serial;
  element("ranking").innerHTML = state.html;
  for (const wide of document.querySelectorAll("#ranking .wide")) {
    wide.tabIndex = 0;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", wide.querySelector("caption")?.textContent ?? "Table");
  }
  element("whole").hidden = !state.html;
  element("picture").hidden = !state.picture;
  if (state.picture) element("picture").src = `results.svg?of=${serial}`;
};

const ask = async () => {
  try {
    const response = await fetch(`api/results?known=${serial}`);
    if (response.ok) tell(await response.json());
    else element("problem").textContent = (await response.json()).problem;
  } catch {
    element("problem").textContent = "ask has ended, or does not answer; trying again.";
  }
  setTimeout(ask, EVERY);
};

ask();
