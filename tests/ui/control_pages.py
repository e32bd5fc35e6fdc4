"""Opens the app and drives its controls by key."""

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DEFAULT = f"vllm serve {MODEL}"


def open_page(browser, app: str, **options):
    """Open the app and wait for its controls."""
    options = {"viewport": {"width": 1280, "height": 900}} | options
    page = browser.new_context(**options).new_page()
    page.sent = []
    page.on("websocket", lambda socket: _listen(page, socket))
    page.goto(app)
    page.locator(".pl-command code").first.wait_for()
    page.locator(".pc-field").first.wait_for()
    return page


def _listen(page, socket) -> None:
    """Note which steps went up and which answers came down, in their order."""

    def note(payload, mark: bytes, what: str) -> None:
        data = payload if isinstance(payload, bytes) else payload.encode()
        if mark in data and b'"custom"' in data:
            page.sent.append(what)

    socket.on("framesent", lambda payload: note(payload, b'"set"', "step"))
    socket.on("framereceived", lambda payload: note(payload, b'"ack"', "answer"))


def wait_for_command(page, words: str) -> None:
    """Wait until the command holds some words."""
    page.locator(".pl-command code", has_text=words).first.wait_for()


def active(page, expression: str) -> object:
    """Evaluate something about the element that has the focus."""
    return page.evaluate(
        f"(() => {{ const node = document.activeElement; {expression} }})()"
    )


def field(page, name: str):
    """The part of the page that holds an argument."""
    return page.locator(f".pc-field[data-name='{name}']")


def open_tab(page, name: str) -> None:
    """Open a tab."""
    page.get_by_role("tab", name=name, exact=True).click()


def open_arguments(page, text: str) -> None:
    """Open the panel of all arguments by key, and find some."""
    finder = page.get_by_label("Find an argument")
    if not finder.count():
        button = page.get_by_role("button", name="All engine arguments")
        button.focus()
        page.keyboard.press("Enter")
    finder.wait_for()
    finder.focus()
    page.keyboard.type(text)
