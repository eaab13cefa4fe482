"""The page of `satformer serve` in headless Chromium, at two widths, dark and light, by keyboard. Needs `pip install
playwright` and a Chromium at $CHROMIUM or /usr/bin/chromium. Usage: page_test.py SATFORMER [FOLDER for screenshots]"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server, make_model

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
try:
    from playwright.sync_api import sync_playwright
except ImportError as error:
    print(f"skipped: {error} (pip install playwright)")
    sys.exit(77)
if not os.path.exists(CHROMIUM):
    print(f"skipped: no browser at {CHROMIUM}")
    sys.exit(77)


def written(page, section="#plain"):
    page.wait_for_selector(f"{section} .token:nth-of-type(6)")
    page.wait_for_selector("#go:not([disabled])")
    return "".join(page.locator(f"{section} .token > span").all_text_contents())


def try_page(page, url, shot):
    messages, elsewhere = [], []
    page.on("console", lambda m: messages.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith((url, "data:")) else None)
    page.goto(url)
    page.wait_for_selector("#gates-panel:not([hidden])")
    page.fill("#prompt", "The sea and")
    page.fill("#temperature", "0")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    alone = written(page)
    assert alone.startswith("The sea and"), alone
    assert page.locator("#plain canvas").count() >= page.locator("#plain .token").count() - 1
    assert not page.is_visible("#edited")
    # By keyboard: open the gates, change one, write again, walk through the words.
    page.focus("summary")
    page.keyboard.press("Enter")
    page.focus("#gates-all")
    page.keyboard.press("Space")
    assert page.locator("[data-gate][aria-pressed=true]").count() == page.locator("[data-gate]").count() > 0
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#edited .token:nth-of-type(6)")
    assert written(page) == alone
    written(page, "#edited")
    page.focus("#plain .token")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    assert page.is_visible("#tip") and page.locator("#tip tr").count() >= 5
    assert abs(sum(float(text.split()[0]) for text in page.locator("#tip td:last-child").all_text_contents())) <= 100.5
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{over} pixels too wide"
    if shot:
        page.screenshot(path=shot + "-completion.png", full_page=True)
    page.keyboard.press("Escape")
    assert not page.is_visible("#tip")
    page.click("#mode-chat")
    page.fill("#prompt", "Hello")
    page.keyboard.press("Enter")
    written(page)
    assert page.locator("#talk li").count() == 2
    if shot:
        page.screenshot(path=shot + "-chat.png", full_page=True)
    # A stream can be stopped.
    page.fill("#temperature", "4.9")
    page.fill("#tokens", "400")
    page.fill("#prompt", "More")
    page.keyboard.press("Enter")
    page.evaluate("document.getElementById('stop').click()")
    page.wait_for_selector("#go:not([disabled])")
    assert page.locator("#plain .token").count() < 400
    assert not messages, messages
    assert not elsewhere, elsewhere


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(sys.argv[1], make_model(sys.argv[1], scratch, layers=5)).wait_ready()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width in (1200, 390):
                for scheme in ("light", "dark"):
                    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                    try_page(context.new_page(), server.url, folder and os.path.join(folder, f"page-{width}-{scheme}"))
                    context.close()
            browser.close()
        assert server.wait_idle(2) < 2
        assert server.stop() == 0
    print("two widths, two schemes: as expected")


main()
