"""A headless Chromium driven through its debugging pipe: no driver, no port, no network."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)

PIPE = (3, 4)
"""File descriptors of the debugging pipe, by definition."""


def find_chromium():
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser; `open` gives pages."""

    def __init__(self, path):
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read, write)]
        self._process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=lambda: [os.dup2(end, place) for end, place in zip(ends, PIPE, strict=True)],  # noqa: PLW1509
            pass_fds=PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        os.close(read)
        os.close(write)
        self._number, self._buffer, self.events = 0, b"", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("Browser.close")
        self._process.wait(20)
        os.close(self._out)
        os.close(self._in)
        self._home.cleanup()

    def call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def until(self, event):
        while not any(known.get("method") == event for known in self.events):
            self.events.append(self._next())

    def _next(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "chromium ended"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, *, width=1280, height=900, dark=False, medium=""):
        return Tab(self, path, width, height, dark, medium)


class Tab:
    """A page with everything it complained about and asked for."""

    def __init__(self, browser, path, width, height, dark, medium):
        self._browser = browser
        self.events = browser.events = []
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.emulate(dark, medium)
        self.call("Page.navigate", url=path.resolve().as_uri())
        browser.until("Page.loadEventFired")
        self.wait("document.documentElement.dataset.drawn !== undefined")

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def emulate(self, dark=False, medium=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition):
        """Until the condition holds; 30 seconds at the most."""
        script = (
            "new Promise((done, fail) => { const end = Date.now() + 30000; (function look() {"
            f"if ({condition}) done(true); else if (Date.now() > end) fail(new Error('never'));"
            "else setTimeout(look, 50); })(); })"
        )
        return self.evaluate(script)

    def complaints(self):
        """Exceptions, console errors and warnings, and log entries of the browser itself."""
        self.evaluate("0")
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def requests(self):
        """Addresses asked for, other than files."""
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]

    def picture(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        extra = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **extra)["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)
