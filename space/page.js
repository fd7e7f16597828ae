"use strict";

// Typing: what is typed goes off after a pause; a pause that is broken never ends. Every change has
// a number, which ends the work on those before it (null is what the server keeps).
const PAUSE = 200; // milliseconds
let changes = 0;
function countChange() {
  changes += 1;
  return [null, changes];
}
let pause;
let choice = null; // what the visitor has chosen in the maps
function afterPause(text) {
  return new Promise((go) => {
    clearTimeout(pause);
    pause = setTimeout(() => go([text, choice, null, changes]), PAUSE);
  });
}

// Pointing: all words read off the same source word are marked; a finger marks until the next tap,
// the keyboard until the next word.
function unmark() {
  for (const one of document.querySelectorAll("#translation .on")) one.classList.remove("on");
}
function mark(event) {
  const word = event.target.closest?.("#translation [data-word]");
  unmark();
  if (!word) return;
  const same = `#translation [data-word="${word.dataset.word}"]`;
  for (const one of document.querySelectorAll(same)) one.classList.add("on");
}
for (const way of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(way, mark);
document.addEventListener("focusout", unmark);

// Maps: their frame grows with them, and the next maps begin with what was chosen in these.
addEventListener("message", (event) => {
  const frame = document.querySelector("#maps iframe");
  if (!frame || event.source !== frame.contentWindow) return;
  document.documentElement.style.setProperty("--maps", `${event.data.height}px`);
  choice = event.data.choice;
});
