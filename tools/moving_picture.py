"""Take the moving picture of the README: the app, used for half a minute.

    python tools/moving_picture.py       writes docs/images/planner.webp and planner.jpg

The app is served on a loopback port and used in headless Chromium as a visitor would
use it; each frame is a screenshot, with a pointer drawn where the mouse is. The last
frame alone is the still picture, for whoever asked for less motion.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from tests.ui import servers  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MOVING = ROOT / "docs" / "images" / "planner.webp"
STILL = MOVING.with_suffix(".jpg")
SIZE = (1280, 800)
"""Width and height of the window in CSS pixels, and of the picture."""
_QUALITY = 60
_PATIENCE = 60_000
_LONG, _SHORT = 2600, 110
"""Milliseconds that a frame is shown: something to read, something that moves."""

_POINTER = """
document.body.insertAdjacentHTML('beforeend', `
  <svg id="pointer" width="22" height="30" viewBox="0 0 22 30" aria-hidden="true"
    style="position: fixed; left: 0; top: 0; transform: translateY(-50px);
      z-index: 99999; pointer-events: none">
    <path d="M1 1v22l6-5 4 9 4-2-4-9h8z" fill="#111" stroke="#fff" stroke-width="1.5"/>
  </svg>`);
document.addEventListener('mousemove', ({ clientX, clientY }) => {
  document.getElementById('pointer').style.transform =
    `translate(${clientX}px, ${clientY}px)`;
}, { capture: true });
"""


@dataclass(slots=True, kw_only=True)
class Film:
    """The frames so far, and the page that they are taken of."""

    page: Page
    frames: list[bytes] = field(default_factory=list)
    milliseconds: list[int] = field(default_factory=list)
    at: tuple[float, float] = (SIZE[0] / 2, SIZE[1] / 2)

    def show(self, milliseconds: int = _LONG) -> None:
        """Take the page as it is; a frame like the last one lengthens that one."""
        frame = self.page.screenshot(type="png")
        if self.frames and self.frames[-1] == frame:
            self.milliseconds[-1] += milliseconds
            return
        self.frames.append(frame)
        self.milliseconds.append(milliseconds)

    def move_to(self, target: Locator, steps: int = 6) -> None:
        """Move the pointer to the middle of something, slower towards its end."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        assert box, "what is pointed at is not on the page"
        end = (box["x"] + min(box["width"] / 2, 120), box["y"] + box["height"] / 2)
        begin = self.at
        for step in range(1, steps + 1):
            part = 1 - (1 - step / steps) ** 2
            x, y = (a + (b - a) * part for a, b in zip(begin, end, strict=True))
            self.page.mouse.move(x, y)
            self.show(_SHORT // 2)
        self.at = end

    def click(self, target: Locator) -> None:
        """Move there and press."""
        self.move_to(target)
        self.page.mouse.click(*self.at)

    def save(self) -> None:
        """Write the moving picture and the still one."""
        pictures = [Image.open(io.BytesIO(one)).convert("RGB") for one in self.frames]
        pictures[0].save(
            MOVING,
            save_all=True,
            append_images=pictures[1:],
            duration=self.milliseconds,
            loop=0,
            quality=_QUALITY,
            method=6,
            allow_mixed=True,
            minimize_size=True,
        )
        pictures[-1].save(STILL, quality=80, optimize=True, progressive=True)


def _field(film: Film, name: str, kind: str) -> Locator:
    return film.page.locator(f".pc-field[data-name={name}] {kind}").first


def _settled(film: Film) -> None:
    """Wait until the answer to the last change is drawn, and its advice."""
    film.page.wait_for_timeout(900)
    film.page.wait_for_function(
        "() => !document.querySelector('.planner-advice[aria-busy=true]')",
        timeout=_PATIENCE,
    )
    film.page.wait_for_timeout(100)


def _opens(film: Film) -> None:
    """Llama-3.1-8B on an H100 fits."""
    film.page.locator(".planner-advice .pl-row").first.wait_for(timeout=_PATIENCE)
    _settled(film)
    film.show()


def _slid(film: Film) -> None:
    """A shorter context: more requests at once; outlines show the plan before."""
    slider = _field(film, "max_model_len", "input[type=range]")
    film.move_to(slider)
    slider.focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        film.page.keyboard.press(key)
        film.page.wait_for_timeout(300)
        film.show(3 * _SHORT)
    film.show(_LONG)
    reset = film.page.get_by_role("button", name="Reset max_model_len", exact=False)
    film.click(reset.first)
    _settled(film)


def _needs(film: Film) -> None:
    """Twenty users who chat: it starts, and serves all of them."""
    film.click(film.page.get_by_role("button", name="Chat", exact=True))
    _settled(film)
    film.page.wait_for_timeout(2000)  # the outlines of the plan before go
    film.show(_LONG)


def _smaller_gpu(film: Film) -> None:
    """On an L4 only some of them are."""
    chooser = _field(film, "gpu", "select")
    film.move_to(chooser)
    chooser.select_option(value="L4")
    _settled(film)
    film.show(2 * _LONG)


def _advised(film: Film) -> None:
    """The best remedy is one click away, and the command is there to be copied."""
    film.click(film.page.get_by_role("button", name="Apply:").first)
    _settled(film)
    film.show(2 * _LONG)


def _which_gpus(film: Film) -> None:
    """Which GPUs and layouts serve the same users, and at which price."""
    film.click(film.page.get_by_role("tab", name="GPUs", exact=True))
    rows = film.page.locator(".ps-root[aria-busy=false] .ps-table")
    rows.first.wait_for(timeout=_PATIENCE)
    _settled(film)
    film.page.locator(".planner-tabs").first.evaluate(
        "node => node.scrollIntoView({ block: 'start' })"
    )
    film.show(2 * _LONG)


def _back(film: Film) -> None:
    """The picture ends where the eye is: at the verdict, with the bar below it."""
    film.page.locator("h1").first.evaluate("node => node.scrollIntoView()")
    film.show()


SCENES: tuple[Callable[[Film], None], ...] = (
    _opens,
    _slid,
    _needs,
    _smaller_gpu,
    _advised,
    _which_gpus,
    _back,
)


def main() -> None:
    """Play all scenes, and write the pictures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        servers.voila(servers.notebook("app", Path(folder))) as address,
    ):
        browser = playwright.chromium.launch(
            executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
        )
        page = browser.new_page(
            viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light"
        )
        page.goto(servers.start_address(address))
        page.evaluate(_POINTER)
        film = Film(page=page)
        for scene in SCENES:
            scene(film)
        browser.close()
    film.save()
    seconds = sum(film.milliseconds) / 1000
    size = MOVING.stat().st_size
    print(f"{len(film.frames)} frames, {seconds:.0f} s, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
