#!/usr/bin/env python3
"""Looks at a page of h3 page in a real browser: headless Chromium, over HTTP, under Jenkins' default policy.

  ctest/page_in_browser.py PAGE_FOLDER [--one-file FILE] [--screenshots FOLDER]

Light and dark, at 1280 and at 390 px: nothing is refused by the policy or said on the console, nothing scrolls
sideways, every picture loads, and what is drawn is not blank. The interactive file also has to search. Exit: 0 all
of it holds, 1 something does not, 2 bad input, 77 no browser (a failure with H3_REQUIRE_BROWSER=1).
Python's standard library only."""

import argparse
import base64
import collections
import functools
import http.server
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

POLICY = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self';"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Server(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def do_GET(self):
        if self.path != "/favicon.ico":  # which a browser asks for by itself
            return super().do_GET()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Browser:
    """Chromium's DevTools protocol over a pair of pipes: no socket, no library."""

    def __init__(self, program, profile):
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def wire():  # the browser reads from 3 and writes to 4
            reads, writes = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reads, 3), os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", f"--user-data-dir={profile}", "--remote-debugging-pipe"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network", "Audits"):
            self.call(f"{domain}.enable")

    session = None

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise RuntimeError("the browser left")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(20)


def complaints(events):
    """What the browser holds against a page: refusals by the policy, errors, requests that failed."""
    for event in events:
        method, what = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            yield what["entry"]["text"]
        elif method == "Runtime.exceptionThrown":
            yield what["exceptionDetails"]["text"]
        elif method == "Runtime.consoleAPICalled":
            yield "console: " + " ".join(str(one.get("value")) for one in what["args"])
        elif method == "Audits.issueAdded":  # refusals by the policy, and what the browser finds badly made
            yield "issue: " + what["issue"]["code"]
        elif method == "Network.loadingFailed":
            yield "not loaded: " + what.get("errorText", "") + what.get("blockedReason", "")
        elif method == "Network.responseReceived" and what["response"]["status"] >= 400:
            yield f"{what['response']['status']}: {what['response']['url']}"


def lines_of(png):
    """The lines of a screenshot: RGB, or RGB and alpha. Yields the bytes of a pixel first, then line by line."""
    at, data, header = 8, b"", None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            header = struct.unpack(">IIBB", png[at + 8:at + 18])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    width, height, _, colour_type = header
    step = {2: 3, 6: 4}[colour_type]
    raw, stride = zlib.decompress(data), width * step
    yield step
    before = bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        kind, line = raw[start], bytearray(raw[start + 1:start + 1 + stride])
        for x in range(stride if kind else 0):
            left, up = line[x - step] if x >= step else 0, before[x]
            if kind == 1:
                line[x] = (line[x] + left) & 255
            elif kind == 2:
                line[x] = (line[x] + up) & 255
            elif kind == 3:
                line[x] = (line[x] + (left + up) // 2) & 255
            else:
                corner = before[x - step] if x >= step else 0
                p = left + up - corner
                a, b, c = abs(p - left), abs(p - up), abs(p - corner)
                line[x] = (line[x] + (left if a <= b and a <= c else up if b <= c else corner)) & 255
        before = line
        yield line


def colours_of(png):
    """The colours of every 7th line of a screenshot, and that of its first pixel."""
    lines = lines_of(png)
    step, colours, first = next(lines), set(), None
    for y, line in enumerate(lines):
        first = first or bytes(line[:3])
        if y % 7 == 0:
            colours.update(bytes(line[x:x + 3]) for x in range(0, len(line), step))
    return colours, first


def with_palette(png):
    """The same picture in its 256 most frequent colours: a third of the bytes."""
    lines = lines_of(png)
    step = next(lines)
    rows = [[bytes(line[x:x + 3]) for x in range(0, len(line), step)] for line in lines]
    counts = collections.Counter(pixel for row in rows for pixel in row)
    palette = [colour for colour, _ in counts.most_common(256)]
    nearest = {colour: min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(palette[i], colour)))
               for colour in counts}

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    data = b"".join(b"\0" + bytes(nearest[pixel] for pixel in row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", b"".join(palette)) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def look(browser, url, width, scheme, interactive, screenshot):
    """Opens a page; returns what is wrong with it."""
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", url=url)
    browser.wait_for("Page.loadEventFired")
    size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    wrong = []
    if size["width"] > width:
        wrong.append(f"scrolls sideways: {size['width']:.0f} px wide")
    # Pictures load when they come near: the whole page at once.
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=min(int(size["height"]) + 1, 16000),
                 deviceScaleFactor=1, mobile=width < 600)
    picture = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
    if screenshot:
        with open(screenshot, "wb") as file:
            file.write(picture)
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    top = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
    colours, paper = colours_of(top)
    if len(colours) < 32:
        wrong.append(f"blank: {len(colours)} colours")
    if (sum(paper) < 3 * 128) != (scheme == "dark"):
        wrong.append(f"the paper is not {scheme}: {tuple(paper)}")
    if interactive:
        asked = browser.call("Runtime.evaluate", returnByValue=True, expression="""(() => {
            const box = document.querySelector('input[type=search]');
            box.value = 'no case is called like this';
            box.dispatchEvent(new Event('input'));
            const none = [...document.querySelectorAll('table.searchable tbody tr')].filter(row => !row.hidden).length;
            box.value = '';
            box.dispatchEvent(new Event('input'));
            const all = [...document.querySelectorAll('table.searchable tbody tr')].filter(row => row.hidden).length;
            return [none, all]; })()""")["result"].get("value")
        if asked != [0, 0]:
            wrong.append(f"search: {asked}, expected no row, then every row")
    return wrong + list(complaints(browser.events))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", help="folder with index.html")
    parser.add_argument("--one-file", help="the interactive file, too")
    parser.add_argument("--quick", action="store_true", help="on a phone in light colours only")
    parser.add_argument("--picture", help="only take the page's first screen, 1200 x 1700 in light colours, into this PNG file")
    parser.add_argument("--screenshots", help="keep the pictures in this folder")
    options = parser.parse_args()
    for path in filter(None, (os.path.join(options.page, "index.html"), options.one_file)):
        if not os.path.isfile(path):
            print(f"{path}: no such file", file=sys.stderr)
            return 2
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        print("no browser: one of " + ", ".join(BROWSERS) + " was expected in PATH", file=sys.stderr)
        return 1 if os.environ.get("H3_REQUIRE_BROWSER") == "1" else 77
    if options.screenshots:
        os.makedirs(options.screenshots, exist_ok=True)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=options.page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = [("static", f"http://127.0.0.1:{server.server_port}/index.html", False)]
    if options.one_file:
        pages.append(("interactive", "file://" + os.path.abspath(options.one_file), True))
    failures = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            if options.picture:
                browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=1700, deviceScaleFactor=1, mobile=False)
                browser.call("Page.navigate", url=pages[0][1])
                browser.wait_for("Page.loadEventFired")
                with open(options.picture, "wb") as file:
                    file.write(with_palette(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])))
                return 0
            for name, url, interactive in pages:
                for width in (390,) if options.quick else (1280, 390):
                    for scheme in ("light",) if options.quick else ("light", "dark"):
                        kept = options.screenshots and os.path.join(options.screenshots, f"{name}-{scheme}-{width}.png")
                        wrong = look(browser, url, width, scheme, interactive, kept)
                        failures += bool(wrong)
                        print(f"{name} {scheme} {width} px: {'; '.join(wrong) or 'as it should be'}")
        finally:
            browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
