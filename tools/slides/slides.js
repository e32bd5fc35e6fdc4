// Keys: arrows and Page Up and Down turn slides; n shows or hides all notes; p opens
// the presenter's window: notes of this slide, the next one's title, a clock.
const slides = [...document.querySelectorAll("section")];
const current = () => {
  const middle = window.innerHeight / 2;
  const found = slides.findIndex((one) => one.getBoundingClientRect().bottom > middle);
  return found < 0 ? slides.length - 1 : found;
};
const show = (number) => {
  const slide = slides[Math.max(0, Math.min(slides.length - 1, number))];
  slide.scrollIntoView();
  slide.focus({ preventScroll: true });
  history.replaceState(null, "", `#${slide.id}`);
  tell();
};

/** The presenter's window; null: there is none. */
let presenter = null;
const began = Date.now();
const titleOf = (slide) => slide?.querySelector("h1, h2")?.textContent ?? "The end";
const elapsed = () => {
  const seconds = Math.floor((Date.now() - began) / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
};
const tell = () => {
  if (!presenter || presenter.closed) return;
  const place = current();
  const of = (name) => presenter.document.getElementById(name);
  of("place").textContent = `Slide ${place + 1} of ${slides.length}`;
  of("now").textContent = titleOf(slides[place]);
  const notes = slides[place].querySelector(".notes")?.cloneNode(true);
  notes?.querySelector("summary")?.remove();
  of("notes").innerHTML = notes?.innerHTML ?? "<p>No notes.</p>";
  of("next").textContent = `Next: ${titleOf(slides[place + 1])}`;
};
const present = () => {
  presenter = window.open("", "presenter", "width=900,height=700");
  if (!presenter) return;
  const { document: page } = presenter;
  page.documentElement.lang = "en";
  page.head.innerHTML = `<title>Notes for the teacher</title><style>${document.querySelector("style").textContent}
    body { padding: 1rem 2rem; font-size: 22px; } h1 { padding: 0; }
    #clock { font-variant-numeric: tabular-nums; } #next { color: var(--link); }</style>`;
  page.body.innerHTML =
    "<main><p><span id='place'></span> · <span id='clock'></span></p>" +
    "<h1 id='now'></h1><div id='notes'></div><p id='next'></p></main>";
  const tick = () => {
    if (!presenter.closed) page.getElementById("clock").textContent = elapsed();
  };
  tick();
  presenter.setInterval(tick, 1000);
  page.addEventListener("keydown", pressed);
  tell();
};
document.addEventListener("scroll", () => requestAnimationFrame(tell));
const notes = () => {
  const areShown = document.body.classList.toggle("with-notes");
  for (const one of document.querySelectorAll("details.notes")) one.open = areShown;
};
const help = () =>
  alert(
    "Arrows, Page Up, Page Down: turn. Home, End: first, last. n: notes. p: notes in a window. Ctrl P: paper.",
  );
const keys = {
  ArrowRight: () => show(current() + 1),
  PageDown: () => show(current() + 1),
  ArrowLeft: () => show(current() - 1),
  PageUp: () => show(current() - 1),
  Home: () => show(0),
  End: () => show(slides.length - 1),
  n: notes,
  p: present,
  "?": help,
};
function pressed(event) {
  const isTurned = event.altKey || event.ctrlKey || event.metaKey;
  if (isTurned || !(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}
document.addEventListener("keydown", pressed);
