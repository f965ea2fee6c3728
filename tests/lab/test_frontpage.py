import asyncio
import threading

import httpx

from lab.app import PAGES_KEPT, KeptFrontPage
from tests.lab.chains import lab_with
from tests.lab.served import ON_AIR, on_air


class Counting:
    """An app that says how often it was asked, and for which host."""

    def __init__(self, status=200):
        self.asked = 0
        self.status = status

    async def __call__(self, scope, receive, send):
        self.asked += 1
        host = dict(scope["headers"]).get(b"host", b"").decode()
        body = f"<p>page {self.asked} for {host}</p>".encode()
        start = {"type": "http.response.start", "status": self.status, "headers": []}
        await send(start | {"headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"<p>end</p>" * 100})


def ask(app, *requests, **always):
    """Return the replies to requests (path, headers), one after the other."""

    async def visit():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://lab") as client:
            return [
                await client.request(always.get("method", "GET"), path, headers=headers) for path, headers in requests
            ]

    replies = []
    # A loop may be running in this thread: a browser test before this one leaves it.
    thread = threading.Thread(target=lambda: replies.extend(asyncio.run(visit())))
    thread.start()
    thread.join()
    return replies


def test_the_second_visitor_gets_the_page_that_was_written_for_the_first():
    app = Counting()

    first, second = ask(KeptFrontPage(app), ("/", {}), ("/", {}))

    assert first.text == second.text == "<p>page 1 for lab</p>" + "<p>end</p>" * 100
    assert second.headers["content-type"] == "text/html"
    assert app.asked == 1


def test_a_browser_that_can_unpack_gets_it_packed_and_another_does_not():
    kept = KeptFrontPage(Counting())

    packed, plain = ask(kept, ("/", {"accept-encoding": "gzip"}), ("/", {"accept-encoding": "identity"}))

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert {reply.headers["vary"] for reply in (packed, plain)} == {"Accept-Encoding"}


def test_a_page_that_differs_is_written_for_itself_and_what_is_no_page_goes_through():
    others = [
        ("/", {"host": "elsewhere"}),
        ("/", {"x-forwarded-host": "a.hf.space"}),
        ("/", {"x-forwarded-proto": "https"}),
        ("/?deep_link=abc", {}),
        ("/config", {}),
    ]
    app = Counting()
    ask(KeptFrontPage(app), ("/", {}), *others)
    assert app.asked == 1 + len(others)

    posted, failing = Counting(), Counting(status=500)
    ask(KeptFrontPage(posted), ("/", {}), ("/", {}), method="POST")
    failed, again = ask(KeptFrontPage(failing), ("/", {}), ("/", {}))
    assert (posted.asked, failing.asked) == (2, 2)
    assert (failed.status_code, again.status_code) == (500, 500)


def test_made_up_addresses_do_not_fill_the_memory():
    app = Counting()
    kept = KeptFrontPage(app)

    ask(kept, *(("/", {"host": f"h{n}"}) for n in range(PAGES_KEPT + 1)))
    ask(kept, ("/", {"host": "h0"}), ("/", {"host": f"h{PAGES_KEPT}"}))

    assert app.asked == PAGES_KEPT + 2


@ON_AIR
def test_the_page_says_where_it_lies_at_every_address_it_is_read_from(tmp_path):
    with on_air(lab_with(tmp_path)) as app:
        port = httpx.URL(app.local_url).port
        here, again, there = (
            httpx.get(f"http://{host}:{port}/").text for host in ("127.0.0.1", "127.0.0.1", "localhost")
        )

    assert f'"root":"http://127.0.0.1:{port}"' in here == again
    assert f'"root":"http://localhost:{port}"' in there


@ON_AIR
def test_behind_a_login_nobody_sees_a_page_made_for_another(tmp_path):
    people = [("kim", "one"), ("lee", "two")]
    with on_air(lab_with(tmp_path), auth=people) as app:
        names = {}
        for name, password in people:
            with httpx.Client(base_url=app.local_url) as browser:
                browser.post("/login", data={"username": name, "password": password})
                names[name] = browser.get("/").text
        stranger = httpx.get(app.local_url).text

    for name in ("kim", "lee"):
        assert f'"username":"{name}"' in names[name]
    assert '"auth_required":true' in stranger
