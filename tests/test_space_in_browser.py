"""The Space in headless Chromium: typing, maps, pointing, files, and pictures for the README.

`make test-demo` runs it, `make demo-pictures` keeps the pictures; SPACE_MODEL=FOLDER names another
model than the one that comes with the package.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from scripts.fresh_process import REPOSITORY

from vanilla_transformer.embedded_models import DEFAULT_MODEL, embedded_names

pytest.importorskip("gradio", reason="gradio is of the demo: make test-demo")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright: make test-demo")

CHROMIUM = shutil.which("chromium")
MODEL = os.environ.get("SPACE_MODEL", DEFAULT_MODEL)
PICTURES = os.environ.get("SPACE_PICTURES")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, by apt-get install chromium"),
    pytest.mark.skipif(
        MODEL not in embedded_names() and not Path(MODEL).is_dir(),
        reason=f"there is no model {MODEL}: SPACE_MODEL=FOLDER names another",
    ),
]

START, PATIENCE = 300, 60  # seconds, on a machine that does other things too
FIRST_PAINT, LAST_KEY = 2.0, 1.0  # seconds, the promise
TRIES = 3
sync_api.expect.set_options(timeout=1000 * PATIENCE)
TEN_WORDS = "Two young dogs are playing with a red ball outside."
SIZES = {"desktop": (1280, 900), "phone": (375, 812)}


@pytest.fixture(scope="module")
def address():
    """The Space in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, REPOSITORY / "space" / "app.py", "--model", MODEL, "--port", port]
    with subprocess.Popen([*map(str, command)]) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/", server)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def wait_for(address, server):
    for _ in range(2 * START):
        assert server.poll() is None, "the Space did not start"
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(address)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """A page at a size, whose requests are kept; at the end none may have left the machine."""
    contexts, asked = [], []

    def go(size="desktop"):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, has_touch=size == "phone"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("request", lambda request: asked.append(request.url))
        page.asked = asked
        page.goto(address)
        page.wait_for_selector("#translation .source")
        return page

    yield go
    for context in contexts:
        context.close()
    local = (address, "data:", "blob:", "about:srcdoc")
    assert [url for url in asked if not url.startswith(local)] == []


def type_text(page, text):
    """Type key by key, and wait for the translation of it all; returns how long that took."""
    page.locator("#english textarea").fill("")
    page.locator("#english textarea").press_sequentially(text, delay=20)
    started = time.perf_counter()
    page.wait_for_function(
        "text => document.querySelector('#translation .source')?.textContent === text", arg=text
    )
    return time.perf_counter() - started


def frame_of(page, text):
    """The frame of the maps, when they are those of a text."""
    frame = page.frame_locator("#maps iframe")
    words = " ".join(text.split())
    sync_api.expect(frame.locator(".text").first).to_contain_text(re.compile(words.split()[-1]))
    return frame


def test_it_paints_and_translates_as_fast_as_promised(open_page, record_property):
    paints, translations = [], []
    for _ in range(TRIES):
        page = open_page()
        paints.append(
            page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
        translations.append(type_text(page, TEN_WORDS))

    record_property("first_paint", paints)
    record_property("translation", translations)
    assert min(paints) < 1000 * FIRST_PAINT
    assert min(translations) < LAST_KEY


def test_who_types_on_gets_one_translation_of_it_all(open_page):
    page = open_page()
    page.asked.clear()
    type_text(page, TEN_WORDS)

    assert len([url for url in page.asked if "/queue/join" in url]) in (1, 2, 3)


def press(*keys):
    def change(page):
        for key in keys:
            page.locator("#english textarea").press(key)

    return change


def paste(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('Where is it?')")
    press("Control+A", "Control+V")(page)


CHANGES = {
    "key": press("x"),
    "backspace": press("Backspace"),
    "delete": press("Control+Home", "Delete"),
    "paste": paste,
    "cut": press("Shift+Control+ArrowLeft", "Control+X"),
    "input method": lambda page: page.keyboard.insert_text("s"),
    "example": lambda page: page.get_by_text("how this works").first.click(),
}
KEEP_WHAT_IS_SHOWN = """() => {
  window.shown = [];
  const keep = () => shown.push(document.querySelector("#translation .source")?.textContent);
  new MutationObserver(keep).observe(document.body, {childList: true, subtree: true});
}"""


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_the_text_ends_a_translation_that_is_under_way(change, open_page):
    page = open_page()
    page.evaluate(KEEP_WHAT_IS_SHOWN)
    textarea, long_text = page.locator("#english textarea"), ("two dogs and " * 76).strip()
    with page.expect_request("**/queue/join*"):
        textarea.fill(long_text)
    change(page)

    text = textarea.input_value()
    assert text != long_text
    page.wait_for_function("text => shown.includes(text)", arg=text)
    assert long_text not in page.evaluate("shown")


def test_layers_and_heads_are_switched_and_stay_so(open_page):
    page = open_page()
    type_text(page, TEN_WORDS)
    frame = frame_of(page, TEN_WORDS)
    frame.get_by_text("Encoder", exact=True).click()
    frame.locator("#layer").select_option("2")
    frame.locator("#head").select_option("1")
    sync_api.expect(frame.locator("#all button[aria-pressed=true]")).to_have_attribute(
        "data-at", "2 1"
    )

    other = "Where are the children?"
    type_text(page, other)
    frame = frame_of(page, other)
    sync_api.expect(frame.locator("#all button[aria-pressed=true]")).to_have_attribute(
        "data-at", "2 1"
    )
    assert frame.locator("#kinds input:checked").get_attribute("value") == "encoder"


@pytest.mark.parametrize("size", SIZES)
def test_a_word_that_is_pointed_at_shows_its_source(size, open_page):
    page = open_page(size)
    type_text(page, TEN_WORDS)
    word = page.locator("#translation .best [data-word]").nth(2)
    if size == "phone":
        word.tap()
    else:
        word.hover()

    number = word.get_attribute("data-word")
    marked = page.locator("#translation .source .on")
    assert marked.all_inner_texts() == [TEN_WORDS.split()[int(number)]]


def test_the_keyboard_shows_the_source_of_a_word_too(open_page):
    page = open_page()
    type_text(page, TEN_WORDS)
    word = page.locator("#translation .best [data-word]").nth(1)
    word.focus()
    page.keyboard.press("Tab")

    word = page.locator("#translation .best [data-word]").nth(2)
    sync_api.expect(word).to_be_focused()
    marked = page.locator("#translation .source .on")
    source = TEN_WORDS.split()[int(word.get_attribute("data-word"))]
    assert marked.all_inner_texts() == [source] == [word.get_attribute("aria-description")]
    page.locator("#english textarea").focus()
    assert marked.count() == 0


def test_a_file_of_200_lines_comes_back_translated(open_page, tmp_path):
    lines = [f"{number} dogs are playing outside." for number in range(200)]
    (tmp_path / "dogs.txt").write_text("\n".join(lines), "utf-8")
    page = open_page()
    page.get_by_role("tab", name="A whole file").click()
    page.locator("#upload input[type=file]").set_input_files(tmp_path / "dogs.txt")

    page.wait_for_function("document.querySelector('#told progress')?.value > 0")
    assert 0 < page.evaluate("document.querySelector('#told progress').value") <= 1
    sync_api.expect(page.locator("#told")).to_contain_text("Done: 200 of 200 lines")
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "dogs.de.txt"
    assert len(download.value.path().read_text("utf-8").splitlines()) == 200


def test_a_file_of_5_megabytes_is_refused_with_a_way_out(open_page, tmp_path):
    (tmp_path / "large.txt").write_bytes(b"x" * 5_000_000)
    page = open_page()
    page.get_by_role("tab", name="A whole file").click()
    page.locator("#upload input[type=file]").set_input_files(tmp_path / "large.txt")

    told = page.locator("#told [role=alert]")
    sync_api.expect(told).to_contain_text("at most 250,000 bytes, got 5,000,000: split it")
    assert not page.locator("#download").is_visible()


def test_a_text_that_is_too_long_is_refused_where_the_translation_was(open_page):
    page = open_page()
    page.locator("#english textarea").fill("x" * 1_001)

    told = page.locator("#translation [role=alert]")
    sync_api.expect(told).to_contain_text("at most 1,000 characters, got 1,001: shorten it")


def test_the_browser_refuses_to_ask_elsewhere(open_page):
    page = open_page()
    refused = page.evaluate("""() => new Promise((told) => {
      addEventListener("securitypolicyviolation", (event) => told(event.blockedURI));
      fetch("http://127.0.0.2/").catch(() => {});
    })""")

    assert refused == "http://127.0.0.2/"
    page.asked.clear()


@pytest.mark.parametrize("size", SIZES)
def test_a_picture_of_it_fits(size, open_page, tmp_path):
    page = open_page(size)
    type_text(page, TEN_WORDS)
    frame_of(page, TEN_WORDS)
    width, _ = SIZES[size]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#translation .best [data-word]").nth(2).hover()
    time.sleep(1)  # the frame takes its height
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": width, "height": height})  # frames have no more than they show
    time.sleep(1)

    picture = Path(PICTURES or tmp_path) / f"space-{size}.jpg"
    page.screenshot(path=picture, quality=65)
    assert picture.stat().st_size < 150_000
