// Keys: arrows, Page Up and Down and Space turn slides; n opens or closes all notes.
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
};
const notes = () => {
  const all = [...document.querySelectorAll("details.notes")];
  const isOpen = all.some((one) => one.open);
  for (const one of all) one.open = !isOpen;
};
const help = () =>
  alert(
    "Arrows, Page Up, Page Down: turn. Home, End: first, last. n: notes. Ctrl P: paper.",
  );
const keys = {
  ArrowRight: () => show(current() + 1),
  PageDown: () => show(current() + 1),
  ArrowLeft: () => show(current() - 1),
  PageUp: () => show(current() - 1),
  Home: () => show(0),
  End: () => show(slides.length - 1),
  n: notes,
  "?": help,
};
document.addEventListener("keydown", (event) => {
  const isTurned = event.altKey || event.ctrlKey || event.metaKey;
  if (isTurned || !(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
