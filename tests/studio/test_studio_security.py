"""Who is answered: the page that this server gave out, and nobody else."""

from __future__ import annotations

import json
import socket

import pytest
from serving import Page

from noiseplan.studio.security import COOKIE, HEADERS, MOST_BYTES, POLICY, Gate, new_token

READ = {"text": ""}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Cookie": None}, 401),
        ({"Cookie": f"{COOKIE}-1=x"}, 401),
        ({"X-Noiseplan-Studio": None}, 403),
        ({"X-Noiseplan-Studio": "0"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:{other}"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "127.0.0.1:{other}"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Host": "localhost.:{port}"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_only_the_page_itself_is_answered(
    page: Page, headers: dict[str, str | None], status: int
) -> None:
    ports = {"port": page.port, "other": page.port ^ 1}
    sent = {name: text and text.format(**ports) for name, text in headers.items()}
    for method, path, body in (("POST", "/api/read", READ), ("GET", "/api/start", None)):
        found, answered, content = page.call(method, path, body, sent)
        assert found == status, content
        for name, text in HEADERS.items():
            assert answered[name] == text
        if status != 200:
            assert list(json.loads(content)) == ["error"]


def test_the_key_must_be_whole(page: Page) -> None:
    for key in (page.token[:-1], page.token + "x", page.token.swapcase(), "", "ä"):
        cookie = f"{COOKIE}-{page.port}={key}"
        connection = page.call(
            "GET", "/api/start", headers={"Cookie": cookie.encode().decode("latin-1")}
        )
        assert connection[0] == 401
    both = f"other=1; {COOKIE}-{page.port}=wrong; {COOKIE}-{page.port}={page.token}"
    assert page.call("GET", "/api/start", headers={"Cookie": both})[0] == 200


def test_keys_are_long_and_new() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43  # 256 bits, 6 to a letter


def test_the_printed_address_hands_over_the_key_once_and_hides_it(page: Page) -> None:
    status, headers, content = page.call(
        "GET", f"/?token={page.token}", headers={"Cookie": None, "X-Noiseplan-Studio": None}
    )
    assert (status, headers["location"], content) == (303, "/", b"")
    parts = headers["set-cookie"].split("; ")
    assert parts[0] == f"{COOKIE}-{page.port}={page.token}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/?token=wrong", "/", "/?token=", "/static/index.html", "/?token={token}&token=x"]
)
def test_without_the_key_nothing_is_shown(page: Page, path: str) -> None:
    path = path.format(token=page.token)
    assert page.call("GET", path, headers={"Cookie": None})[0] == 401


def test_the_key_in_another_address_or_call_opens_nothing(page: Page) -> None:
    for method, path in (("POST", "/"), ("GET", "/api/start"), ("GET", "/x")):
        asked = f"{path}?token={page.token}"
        assert page.call(method, asked, headers={"Cookie": None})[0] == 401


def test_policy() -> None:
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert rule in POLICY
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY


def test_long_bodies_are_refused_whatever_they_announce(page: Page) -> None:
    status, _, content = page.call(
        "POST", "/api/read", headers={"Content-Length": str(MOST_BYTES + 1)}
    )
    assert status == 413 and b"32 MiB" in content
    head = (
        f"POST /api/read HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
        f"Cookie: {page.headers['Cookie']}\r\nX-Noiseplan-Studio: 1\r\n"
        f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    block = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as line:
        line.sendall(head.encode())
        for _ in range(MOST_BYTES // 2**20):
            line.sendall(block)
        line.sendall(b"1\r\n \r\n0\r\n\r\n")
        answer = line.recv(65536)
    assert b" 413 " in answer.split(b"\r\n", 1)[0]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000]
)
def test_bodies_that_are_no_calls(page: Page, body: bytes) -> None:
    status, _, content = page.call("POST", "/api/read", body)
    assert status == 400
    assert "JSON" in json.loads(content)["error"]["message"]


def test_designs_that_are_too_deep_are_refused(page: Page) -> None:
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    status, error = page.refused("/api/edit", text="", design={"title": deep})
    assert status == 400 and "too deeply" in error["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/read", {}),
        ("/api/read", {"text": 1}),
        ("/api/read", {"text": "", "public": "x"}),
        ("/api/edit", {"text": ""}),
        ("/api/jobs", {"text": "", "kind": "shell"}),
        ("/api/save", {"name": "a.toml", "text": "", "digest": 1}),
        ("/api/privacy/range", {"currency": "zcdp", "delta": "x"}),
        ("/api/report", {"designs": []}),
        ("/api/expected", {"text": "", "plan": 1}),
    ],
)
def test_calls_that_are_not_as_the_page_makes_them(page: Page, path: str, body: object) -> None:
    status, _, content = page.call("POST", path, body)
    assert status in (400, 422)
    found = json.loads(content)["error"]
    assert found["message"] and "Traceback" not in content.decode()


DESIGN = "[schema]\na = { ordinal = [1, 2] }\n[[tables]]\nk = 1\n[budget]\nzcdp = 1\n"
LONG = "1" * 5000
HEX = "0x" + "f" * 9000
SPREAD = "\n".join(str(number) + "0" * 400 for number in range(1, 1100))


def example(content: str) -> tuple[str, dict[str, object]]:
    return "/api/example", {"name": "a.csv", "content": content, "confirmed": True}


def about(**more: object) -> tuple[str, dict[str, object]]:
    table = {"name": "a", "std_error": 1.0}
    return "/api/expected", {"text": DESIGN, "plan": [table], "total": 100, **more}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (example("a" * 200_000 + "\n1\n"), "line 1: not CSV"),
        (example("a\n" + "1" * 200_000 + "\n"), "line 2: not CSV"),
        (example("a\n1e308\n-1e308\n"), "no bins"),
        (example("a\n0.5\n1.7e308\n"), "no bins"),
        (example("a\n0.0\n5e-324\n"), "no bins"),
        (example("a\n" + SPREAD), "no bins"),
        (example(f"a\n{LONG}\n"), "5,000 digits"),
        (("/api/python", {"text": f"{DESIGN}x = {LONG}\n"}), "too many digits"),
        (("/api/python", {"text": f"{DESIGN}x = {HEX}\n"}), "too many digits"),
        (("/api/edit", {"text": f"x = {LONG}\n", "design": {}}), "not TOML"),
        (("/api/read", {"text": "# \ud800"}), "not valid Unicode"),
        (("/api/read", {"text": DESIGN, "public": ["\udfff"]}), "not valid Unicode"),
        (("/api/save", {"text": "# \ud800", "name": "a.toml"}), "not valid Unicode"),
        (("/api/read", {"text": DESIGN, "\ud800": 1}), "not valid Unicode"),
        (about(total=10**400), "number of records"),
        (about(total=1e308), "number of records"),
        (about(limit=10**400), "limit"),
        (about(plan=[{}]), "plan is missing"),
        (about(plan=[{"name": "a"}]), "plan is missing"),
        (about(plan=[{"name": "a", "std_error": 10**400}]), "plan is missing"),
        (about(plan=[{"name": "none", "std_error": 1}]), "none"),
        (("/api/report", {"designs": ["x"]}), "every design"),
        (("/api/report", {"designs": [None]}), "every design"),
    ],
)
def test_what_nobody_can_read_is_refused_in_words(
    page: Page, call: tuple[str, dict[str, object]], words: str
) -> None:
    path, body = call
    status, error = page.refused(path, **body)
    assert status in (400, 422) and words in error["message"]


def test_a_number_of_too_many_digits_is_a_problem_of_the_study(page: Page) -> None:
    for written in (LONG, HEX):
        (fault,) = page.post("/api/read", text=f"x = {written}\n")["problems"]
        assert "too many digits" in fault["message"]


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/etc/passwd"]
)
def test_no_way_leads_out_of_the_static_folder(page: Page, path: str) -> None:
    status, _, content = page.call("GET", path)
    assert status == 404 and b"import" not in content


def test_unknown_paths_and_methods(page: Page) -> None:
    assert page.call("GET", "/api/none")[0] == 404
    assert page.call("GET", "/api/read")[0] == 405
    assert page.call("DELETE", "/api/jobs/none")[0] == 404
    assert page.call("PUT", "/")[0] == 405


def test_faults_of_ours_show_no_inside(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("noiseplan.studio.views.view", broken)
    status, headers, content = page.call("POST", "/api/read", READ)
    assert status == 500 and b"secret" not in content and b"RuntimeError" in content
    assert headers["content-security-policy"] == POLICY


def test_other_protocols_are_not_spoken() -> None:
    import asyncio

    gate = Gate(None, "x", 1)
    asyncio.run(gate({"type": "websocket"}, None, None))
