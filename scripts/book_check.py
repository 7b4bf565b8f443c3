#!/usr/bin/env python3
"""Checks the HTML of the book: `book_check.py FOLDER [PROGRAM]`. Every link leads to a file and an id, and Chromium shows each page
without a fault on a phone and on a desk. With PROGRAM, the native `learn-browser`, the panels of the course run too: their answers equal
the program's. `--self-test` plants each fault, and fails unless it is found. Needs no network."""

import json
import os
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

WIDTHS = (400, 1400)


class Page(HTMLParser):
    """The ids and the links of a page, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids |= {attributes.get("id"), attributes.get("name") if tag == "a" else None}
        if tag == "a":
            self.links.append(attributes.get("href"))
        elif tag != "base":
            self.loads += [attributes.get("src"), attributes.get("href")]


def check_links(root, pages):
    """The faults of the links: `api/` and `files/` are targets, and are not read for their own links."""
    read, faults = {}, []

    def page(path):
        if path not in read:
            read[path] = Page(path)
        return read[path]

    for path in pages:
        here = page(path)
        for url in filter(None, here.links + here.loads):
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and url in here.links:
                continue
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                faults.append(f"{path.relative_to(root)} loads {url}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_relative_to(root.resolve()) or not target.is_file():
                faults.append(f"{path.relative_to(root)}: no file for {url}")
            elif anchor and target.suffix == ".html" and anchor not in page(target).ids:
                faults.append(f"{path.relative_to(root)}: no id for {url}")
    return faults


class Browser:
    """Chromium without a window, which speaks the DevTools protocol through two pipes."""

    def __init__(self, profile):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        arguments = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        arguments += ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", f"--user-data-dir={profile}"]
        # The protocol's pipes are the descriptors 3 and 4.
        shell = f'exec "$@" 3<&{commands} 4>&{answers}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *arguments], pass_fds=(commands, answers), stderr=subprocess.DEVNULL
        )
        os.close(commands)
        os.close(answers)
        self.read, self.count, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()

    def message(self):
        while b"\0" not in self.read:
            block = os.read(self.answers, 1 << 20)
            if not block:
                sys.exit("Chromium ended: does it start?")
            self.read += block
        message, _, self.read = self.read.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while (message := self.message()).get("id") != self.count:
            self.events.append(message)
        if "error" in message:
            sys.exit(f"{method}: {message['error']}")
        return message["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"the check itself: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def resize(self, width):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 800)

    def open(self, path):
        """Loads a page, and returns what failed meanwhile."""
        self.events = []
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.evaluate("document.fonts.ready.then(() => new Promise(next => requestAnimationFrame(() => setTimeout(next)))).then(() => 0)")
        faults = []
        for event in self.events:
            details = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    faults.append("exception: " + details["exceptionDetails"]["text"])
                case "Runtime.consoleAPICalled" if details["type"] in ("error", "assert"):
                    faults.append("console: " + " ".join(str(value.get("value")) for value in details["args"]))
                case "Log.entryAdded" if details["entry"]["level"] == "error":
                    faults.append("log: " + details["entry"]["text"] + " " + details["entry"].get("url", ""))
                case "Network.requestWillBeSent" if details["request"]["url"].startswith(("http", "ws")):
                    faults.append("network: " + details["request"]["url"])
                case "Network.loadingFailed":
                    faults.append("not loaded: " + details["errorText"])
        return faults


# What a page shows that it should not, at the width of the window.
LOOK = r"""(() => {
    const faults = [], root = document.documentElement;
    const seen = element => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
    if (root.scrollWidth > root.clientWidth) {
        const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > root.clientWidth + 1);
        faults.push(`wider than the window: ${root.scrollWidth} > ${root.clientWidth}, ${wide.slice(-1).map(e => e.outerHTML.slice(0, 80))}`);
    }
    for (const image of document.images) {
        const hidden = !image.checkVisibility();
        if (!image.complete || image.naturalWidth === 0 || !hidden && !seen(image)) faults.push(`empty image ${image.src}`);
    }
    for (const math of document.querySelectorAll("math")) {
        if (math.checkVisibility() && (!seen(math) || !math.textContent.trim())) faults.push(`empty expression ${math.outerHTML.slice(0, 80)}`);
        if (math.querySelector("merror")) faults.push(`wrong expression ${math.textContent.slice(0, 80)}`);
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (node.parentElement.closest("pre, code, script, style")) continue;
        const raw = node.data.match(/\$[^$]+\$|\\[a-zA-Z]{2,}|\\[()\[\]]|\{\{#|@@\w*|&#?\w+;/);
        if (raw) faults.push(`raw text ${raw[0].slice(0, 80)}`);
    }
    return faults;
})()"""


# Texts that a picture cuts off.
CUT = r"""(() => {
    const root = document.documentElement.getBoundingClientRect();
    const inside = box => box.left >= root.left - 1 && box.right <= root.right + 1 && box.top >= root.top - 1 && box.bottom <= root.bottom + 1;
    return [...document.querySelectorAll("text")].filter(text => !inside(text.getBoundingClientRect())).map(text => `cuts off ${text.textContent}`);
})()"""


def check_pages(root, pages, pictures):
    """The faults that Chromium sees."""
    faults = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        for path in pages:
            for width in WIDTHS:
                browser.resize(width)
                # The style of a page depends on the width at any time, so it is loaded once.
                found = browser.open(path) if width == WIDTHS[0] else []
                # What is folded is part of the page.
                browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
                found += browser.evaluate(LOOK)
                faults += [f"{path.relative_to(root)} at {width} px: {fault}" for fault in dict.fromkeys(found)]
        for path in pictures:
            found = browser.open(path) + browser.evaluate(CUT)
            faults += [f"{path.relative_to(root)}: {fault}" for fault in dict.fromkeys(found)]
        browser.close()
    return faults


# Waits until a panel has drawn what is set, and changes what is set as a reader does.
PANEL = r"""
const element = document.querySelector("div.emulator"), panel = element.panel;
const until = async (what, holds) => {
    for (let k = 0; k < 600; k++) {
        if (holds()) return;
        await new Promise(next => setTimeout(next, 50));
    }
    throw new Error(`the panel does not come to this: ${what}: ${element.innerText.slice(0, 300)}`);
};
const done = () => until("it has drawn", () => element.dataset.state === "done");
const set = async (name, value) => {
    const control = element.querySelector(`[data-setting="${name}"]`);
    if (!control) throw new Error(`no control ${name}`);
    element.dataset.state = "set";
    control.value = value;
    for (const event of ["input", "change"]) control.dispatchEvent(new Event(event));
    if (name !== "request of the first warp") await done();
};
const drawn = () => [...element.querySelectorAll(".result svg rect")].length;
const shown = name => element.querySelector(name)?.innerText ?? "";
"""

# What a reader sees after some settings: the page, and an expression that must be true.
SEEN = {
    "00_vector_add": "const before = element.querySelector('.result').innerHTML; await set('size', 2);"
    "return element.querySelector('.result').innerHTML !== before && shown('.request').includes('lanes')",
    "02_copy": "await set('what', 6); await set('stride', 7); const eight = shown('.request').includes(', 32 sectors');"
    "await set('offset', 1); const fits = !shown('.fault');"
    "await set('offset', 8); return eight && fits && shown('.fault').includes('out of bounds: x[2048]')",
    "04_transpose": "await set('what', 6); await set('request of the first warp', 1); const none = element.querySelectorAll('.conflict').length;"
    "await set('stride', 31); return none === 0 && element.querySelectorAll('.conflict').length === 32"
    " && shown('.request').includes('31 bank conflicts')",
    "05_faults": "await set('what', 5); return shown('.fault').includes('race on sums[1] in shared memory') && drawn() === 0",
    "06_dot_product": "await set('threads of a block', 4); return shown('.fault').includes('out of bounds')",
}


def check_panels(root, pages, program):
    """The faults of the panels, and their number."""
    faults, count = [], 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        for path in pages:
            if '<div class="emulator"' not in path.read_text():
                continue
            count += 1
            found = browser.open(path)

            def run(script):
                return browser.evaluate(f"(async () => {{ {PANEL} {script} }})().catch(error => String(error))")

            chapter = run("element.scrollIntoView(); await done(); return element.dataset.chapter")
            if run("return drawn() > 0 && element.querySelectorAll('td').length > 0") is not True:
                found.append("the panel has drawn nothing")
            requests = []
            for part, settings in enumerate(run("return panel.parts")):
                # Other blocks of the first kernel, of which some contracts say no.
                request = {"chapter": chapter, "part": part, "size": settings["size"], "stride": 3, "offset": 1}
                requests += [request, {**request, "kernel": "*", "threads": 64}]
            answers = []
            for request in requests:
                if request.get("kernel"):
                    kernels = answers[-1]["kernels"]
                    request["kernel"] = kernels[0]["name"] if kernels else ""
                answers.append(run(f"return Emulator.ask(panel.module, {json.dumps(request)})"))
            lines = "".join(json.dumps(request) + "\n" for request in requests)
            native = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
            assert len(native) == len(requests) > 0
            for request, answer, expected in zip(requests, answers, map(json.loads, native)):
                # A panic of Rust's own ends the module, which can only tell its message.
                _, panic, message = str(expected["fault"] if "fault" in expected else "").partition(": panic: ")
                if panic and message.splitlines()[0] in answer["fault"]:
                    continue
                if answer != expected:
                    found.append(f"{request} gives {str(answer)[:300]}, expected {str(expected)[:300]}")
            for width in WIDTHS:
                browser.resize(width)
                found += browser.evaluate(LOOK)
            if chapter in SEEN and (seen := run(SEEN[chapter])) is not True:
                found.append(f"{SEEN[chapter]} is {seen}")
            faults += [f"{path.relative_to(root)}: {fault}" for fault in dict.fromkeys(found)]
        browser.close()
    return faults, count


def check(root):
    """The pages of a folder, and their faults."""
    pages, pictures = (
        sorted(path for path in root.rglob(f"*.{kind}") if path.relative_to(root).parts[0] != "api")
        for kind in ("html", "svg")
    )
    return pages, check_links(root, pages) + check_pages(root, pages, pictures)


PLANTED = [
    ('<a href="gone.html">a</a>', "no file for gone.html"),
    ('<a href="good.html#gone">a</a>', "no id for good.html#gone"),
    ('<a href="../a.html">a</a>', "no file for ../a.html"),
    ('<script src="https://example.org/a.js"></script>', "loads https://example.org/a.js"),
    ("<style>@font-face { font-family: a; src: url(//example.org/a) } p { font-family: a }</style><p>a</p>", "not loaded"),
    ("<script>setTimeout(() => fetch('http://example.org').catch(() => 0), 0)</script>", "network: http://example.org"),
    ('<div style="width: 600px; height: 1px">a</div>', "at 400 px: wider than the window"),
    ('<div style="width: 2000px; height: 1px">a</div>', "at 1400 px: wider than the window"),
    ('<img src="good.html">', "empty image"),
    ('<img src="data:image/svg+xml,<svg xmlns=\'http://www.w3.org/2000/svg\' width=\'9\' height=\'9\'/>" style="width: 0">', "empty image"),
    ("<script>console.error('a fault')</script>", "console: a fault"),
    ("<script>null.a</script>", "exception"),
    ('<script src="gone.js"></script>', "not loaded"),
    ("<p>The sum $x + y$</p>", "raw text $x + y$"),
    ("<details><p>\\frac12</p></details>", "raw text \\frac"),
    ("<p>{{#include a}}</p>", "raw text {{#"),
    ("<p>@@TABLE@@</p>", "raw text @@TABLE"),
    ("<p>a&amp;nbsp;b</p>", "raw text &nbsp;"),
    ("<math></math>", "empty expression"),
    ("<math><merror><mtext>x</mtext></merror></math>", "wrong expression"),
]

# A picture, and a text that it cuts off.
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="20"><text x="5" y="15">{}</text></svg>'
LONG = "a text that is longer than the picture"

GOOD = """<a id="here" href="#here">a</a> <a href="good.html#here">a</a> <a href="https://example.org">a</a>
<div style="overflow-x: auto"><div style="width: 3000px">a</div></div><pre><code>$HOME $x$ \\frac</code></pre> 5 $
<math><mi>x</mi></math><img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>">"""


def self_test():
    """Plants each fault in a page of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        head = '<!DOCTYPE html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><body>'
        (root / "good.html").write_text(head + GOOD)
        (root / "good.svg").write_text(PICTURE.format("a text"))
        (root / "cut.svg").write_text(PICTURE.format(LONG))
        for i, (html, _) in enumerate(PLANTED):
            (root / f"{i}.html").write_text(head + html)
        _, faults = check(root)
    for i, (html, expected) in enumerate(PLANTED):
        assert any(fault.startswith(f"{i}.html") and expected in fault for fault in faults), f"{html} was not found: {faults}"
    assert f"cut.svg: cuts off {LONG}" in faults, faults
    wrong = [fault for fault in faults if fault.startswith("good.")]
    assert not wrong, wrong
    print(f"{len(PLANTED) + 1} planted faults were found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root, *programs = sys.argv[1:]
    pages, faults = check(Path(root))
    assert pages, "no pages"
    for program in programs:
        found, panels = check_panels(Path(root), pages, program)
        faults += found
        assert panels, "no panels"
        print(f"{panels} panels give the answers of {program}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(pages)} pages without faults, each at {' and '.join(map(str, WIDTHS))} px")


if __name__ == "__main__":
    main()
