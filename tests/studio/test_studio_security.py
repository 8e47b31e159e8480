"""Who is answered: the page that this server gave out, and nobody else."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving import Page

from noiseplan.studio.security import HEADERS, MOST_BYTES, POLICY, Gate, new_secret

READ = {"text": ""}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"X-Noiseplan-Studio": None}, 401),
        ({"X-Noiseplan-Studio": "1"}, 401),
        ({"X-Noiseplan-Studio": None, "Cookie": "noiseplan-studio-{port}={key}"}, 401),
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
    ports = {"port": page.port, "other": page.port ^ 1, "key": page.keys.key}
    sent = {name: text and text.format(**ports) for name, text in headers.items()}
    for method, path, body in (("POST", "/api/read", READ), ("GET", "/api/start", None)):
        found, answered, content = page.call(method, path, body, sent)
        assert found == status, content
        for name, text in HEADERS.items():
            assert answered[name] == text
        if status != 200:
            assert list(json.loads(content)) == ["error"]


KEY = "X-Noiseplan-Studio"


def test_the_key_must_be_whole(page: Page) -> None:
    key = page.keys.key
    for wrong in (key[:-1], key + "x", key.swapcase(), page.keys.token, "ä", f"{key}, {key}"):
        sent = {KEY: wrong.encode().decode("latin-1")}
        assert page.call("GET", "/api/start", headers=sent)[0] == 401


def test_secrets_are_long_and_new() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    assert len(new_secret()) >= 43  # 256 bits, 6 to a letter


def entered(page: Page, token: object) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"token": token}).encode()
    status, _, content = page.call("POST", "/api/enter", body, {KEY: None})
    return status, json.loads(content)


def test_the_token_of_the_address_is_good_once_and_is_no_key(page: Page) -> None:
    token = page.keys.token
    assert entered(page, token[:-1])[0] == entered(page, None)[0] == entered(page, "")[0] == 401
    status, found = entered(page, token)
    assert status == 200 and found["key"] not in (token, page.keys.token)
    assert page.call("GET", "/api/start", headers={KEY: found["key"]})[0] == 200
    status, found = entered(page, token)
    assert status == 401 and "good once" in found["error"]["message"]
    for used in (token, page.keys.token):
        assert page.call("GET", "/api/start", headers={KEY: used})[0] == 401
    assert page.keys.token != token and entered(page, page.keys.token)[0] == 200


def test_of_many_who_bring_one_token_one_is_let_in(page: Page) -> None:
    token = page.keys.token
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: entered(page, token)[0], range(16)))
    assert sorted(answers) == [200] + [401] * 15


def test_no_answer_sets_a_cookie(page: Page) -> None:
    """A cookie would be sent to every port of this machine, whoever listens there."""
    token = page.keys.token
    answers = [page.call("GET", path) for path in ("/", "/static/main.js", "/api/start")]
    answers.append(page.call("POST", "/api/enter", {"token": token}))
    for status, headers, content in answers:
        assert status == 200 and "set-cookie" not in headers
        assert headers["cache-control"] == "no-store"
        assert (page.keys.key.encode() in content) == (content == answers[-1][2])


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/static/look.css"])
def test_the_files_of_the_page_are_for_everybody(page: Page, path: str) -> None:
    assert page.call("GET", path, headers={KEY: None})[0] == 200
    foreign = page.call("GET", path, headers={KEY: None, "Sec-Fetch-Site": "cross-site"})[0]
    assert foreign == (200 if path == "/" else 403)


@pytest.mark.parametrize("path", ["/x", "//api/start", "/API/start", "/api/none", "/%61pi/start"])
def test_without_the_key_nothing_else_is_told(page: Page, path: str) -> None:
    assert page.call("GET", path, headers={KEY: None})[0] == 401
    for query in ("?token={}", "?key={}"):
        asked = path + query.format(page.keys.key)
        assert page.call("GET", asked, headers={KEY: None})[0] == 401


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
        f"X-Noiseplan-Studio: {page.keys.key}\r\n"
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
        (example("a\n" + SPREAD), "404 digits"),
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


def test_labels_of_one_hash_are_refused_one_by_one(page: Page) -> None:
    """Multiples of 2⁶¹ − 1 share a hash: the first of too many bits is refused, before any of them
    is looked up among the others, as the two that are equal would be."""
    numbers = [number * (2**61 - 1) for number in (1, 1, *range(2, 6000))]
    text = DESIGN.replace("ordinal = [1, 2]", f"categorical = {numbers}")
    fault, *_ = page.post("/api/read", text=text)["problems"]
    assert "64 bits do not hold" in fault["message"]
    assert fault["place"] == ["schema", "a", "categorical", 9]


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
