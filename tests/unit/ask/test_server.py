"""What the page answers, and whom."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.ask import server
from sparse_prefgp.ask.doors import PERSON
from sparse_prefgp.ask.guard import MOST_BYTES
from sparse_prefgp.ask.pairing import Uneven
from sparse_prefgp.ask.refitting import Learned
from sparse_prefgp.ask.results import Results
from sparse_prefgp.ask.server import ANSWERED_ALL, FINISHED, SENT_BY, TOO_EVEN, Page
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import VoteStore
from sparse_prefgp.ask.things import Things, things_of
from tests.asking_page import learns_nothing

testclient = pytest.importorskip("starlette.testclient", reason="the extra ask is not installed")
ROOT = "http://127.0.0.1:8000"


@pytest.fixture
def things(tmp_path: Path) -> Things:
    media = tmp_path / "media"
    media.mkdir()
    names = ["a/b.png", '"q"', "<script>alert(1)</script>", "plain"]
    for i in range(4):
        (media / f"{i}.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret.png").write_text("secret")
    items = pd.DataFrame({"id": names, "file": [f"{i}.svg" for i in range(4)]})
    return things_of(items, media)


Made = Callable[..., Page]


@pytest.fixture
def made(tmp_path: Path, things: Things, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A page of these settings, on one folder."""
    monkeypatch.setattr(Results, "learn", learns_nothing)

    def page(then: Callable[[], None] = lambda: None, **settings: Any) -> Page:
        store = VoteStore(tmp_path / "votes", settings.get("invited", ()))
        return Page(store, things, PageSettings(**settings), then)

    return page


@pytest.fixture
def page(made: Made) -> Page:
    return made(ties=True)


@pytest.fixture
def client(page: Page) -> Iterator[Any]:
    with testclient.TestClient(page.app(), base_url=ROOT) as one:
        yield one


def browser(page: Page) -> Any:
    """Another one, of the same page."""
    return testclient.TestClient(page.app(), base_url=ROOT)


def said(pair: Any, number: int, verdict: str = "left", **more: Any) -> dict[str, Any]:
    left, right = (one["name"] for one in pair)
    return {"id": f"{number:032x}", "left": left, "right": right, "verdict": verdict, **more}


def joined(client: Any, name: str) -> dict[str, Any]:
    """What a page gets that gives this name; from then on it sends on behalf of this person."""
    state: dict[str, Any] = client.post("/api/join", json={"name": name}).json()
    client.headers[PERSON] = state["person"]
    return state


def test_two_answers_to_a_pair_at_once_are_one(client: Any, page: Page) -> None:
    pair = joined(client, "Ann")["pairs"][0]
    keep = page.store.keep

    def slow(answers: Any) -> Any:
        time.sleep(0.3)
        return keep(answers)

    page.store.keep = slow  # type: ignore[method-assign]
    both = [said(pair, 1), said(pair, 2, "right")]
    with ThreadPoolExecutor(2) as tabs:
        codes = list(tabs.map(lambda one: client.post("/api/answers", json=one).status_code, both))
    assert sorted(codes) == [200, 409]
    assert page.store.number() == page.number == 1


def test_results_are_new_whenever_something_was_learned(
    client: Any, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get(f"/results?key={page.store.setting('owner')}")
    for text in ("before", "after"):  # an answer was taken back, and another one came
        page.results.take(Learned(9, html=text))
        state = client.get("/api/results?known=0").json()
        assert state["html"] == text
        unchanged = client.get(f"/api/results?known={state['serial']}").json()
        assert unchanged == state | {"html": None}
    monkeypatch.setattr(page.results, "is_learning", True)
    assert client.get("/api/results").json() == state | {"learning": True}


def test_a_person_answers_and_takes_back(client: Any, page: Page) -> None:
    assert client.get("/api/begin").json()["name"] is None
    begun = joined(client, " Ann  B ")
    assert begun["name"] == "Ann B" and len(begun["pairs"]) == 2
    first = said(begun["pairs"][0], 1)
    state = client.post("/api/answers", json=first).json()
    assert (state["mine"], state["all"], len(state["pairs"])) == (1, 1, 1)
    # The same again changes nothing; another answer by its id is refused.
    assert client.post("/api/answers", json=first).json()["mine"] == 1
    for other in (first | {"verdict": "right"}, first | {"id": f"{9:032x}"}):
        assert client.post("/api/answers", json=other).status_code == 409
    client.post("/api/answers", json=said(begun["pairs"][1], 2, "skip"))
    assert page.number == 1
    after_reload = client.get("/api/begin").json()
    assert [one["id"] for one in after_reload["last"]] == [f"{n:032x}" for n in (2, 1)]
    assert client.post("/api/undo", json={"id": first["id"]}).json()["mine"] == 0
    assert client.post("/api/undo", json={"id": first["id"]}).status_code == 200
    assert page.number == 0


def test_every_pair_once_then_none(client: Any, things: Things) -> None:
    pairs = joined(client, "Ann")["pairs"]
    seen = []
    while pairs:
        pair = pairs.pop(0)
        seen.append(frozenset(one["name"] for one in pair))
        held = [[one["name"] for one in each] for each in pairs]
        sent = said(pair, len(seen), held=held)
        pairs += client.post("/api/answers", json=sent).json()["pairs"]
    assert len(seen) == len(set(seen)) == 6


def test_nobody_answers_for_another(client: Any, page: Page) -> None:
    pairs = joined(client, "Ann")["pairs"]
    client.post("/api/answers", json=said(pairs[0], 1))
    stranger = browser(page)
    assert stranger.post("/api/answers", json=said(pairs[0], 3)).status_code == 401
    assert stranger.post("/api/join", json={"name": "Ann"}).status_code == 409
    joined(stranger, "Bob")
    assert stranger.post("/api/undo", json={"id": f"{1:032x}"}).status_code == 409
    assert page.number == 1


def test_a_page_sends_on_behalf_of_one_person_alone(made: Made) -> None:
    page = made(open_to_all=False, invited=["Ann", "Björn"])
    with browser(page) as client:

        def opened(name: str) -> dict[str, Any]:
            client.get(f"/?person={page.store.tokens[name]}")
            state: dict[str, Any] = client.get("/api/begin").json()
            assert state["name"] == name
            return state

        ann = opened("Ann")
        client.headers[PERSON] = ann["person"]
        assert client.post("/api/answers", json=said(ann["pairs"][0], 1)).status_code == 200
        # In the same browser somebody else opens another link, and Ann's page goes on.
        bjorn = opened("Björn")
        assert bjorn["person"] != ann["person"]
        for path, sent in (
            ("/api/answers", said(ann["pairs"][1], 2)),
            ("/api/answers", said(ann["pairs"][1], 3, "skip")),
            ("/api/undo", {"id": f"{1:032x}"}),
        ):
            refused = client.post(path, json=sent)
            assert refused.status_code == 412
            assert refused.json()["problem"].startswith("Björn is signed in here now; ")
        assert client.get("/api/more").status_code == 412
        assert [row[0] for row in page.store.answers()] == ["Ann"]
        del client.headers[PERSON]
        assert client.post("/api/answers", json=said(ann["pairs"][1], 2)).status_code == 412
        # What waited is Ann's once her link is opened again.
        client.headers[PERSON] = opened("Ann")["person"]
        assert client.post("/api/answers", json=said(ann["pairs"][1], 2)).status_code == 200
        client.cookies.clear()
        client.get(f"/?key={page.store.setting('owner')}")
        assert client.post("/api/answers", json=said(ann["pairs"][1], 2)).status_code == 401
    assert [row[0] for row in page.store.answers()] == ["Ann", "Ann"]


def test_what_waits_of_somebody_who_was_forgotten_is_nobodys(made: Made) -> None:
    page = made()
    with browser(page) as before:
        ann = joined(before, "Ann")
        assert before.get(f"/api/begin?waiting={ann['person']}").json()["gone"] == []
    page.store.forget("Ann")
    page = made()
    after = browser(page)
    after.cookies, after.headers = before.cookies, before.headers
    assert after.post("/api/answers", json=said(ann["pairs"][0], 1)).status_code == 410
    begun = after.get(f"/api/begin?waiting={ann['person']}").json()
    assert begun["gone"] == [ann["person"]] and begun["name"] is None
    # Not even of somebody who gives the same name.
    assert joined(after, "Ann")["person"] != ann["person"]
    after.headers[PERSON] = ann["person"]
    assert after.post("/api/answers", json=said(ann["pairs"][0], 1)).status_code == 410
    assert page.number == 0


def test_one_browser_for_several_people(client: Any, page: Page) -> None:
    ann = joined(client, "Ann")
    client.post("/api/answers", json=said(ann["pairs"][0], 1))
    assert joined(client, "Bea")["mine"] == 0
    again = joined(client, " aNN")
    assert (again["name"], again["person"], again["mine"]) == ("Ann", ann["person"], 1)
    assert [one["id"] for one in again["last"]] == [f"{1:032x}"]
    assert client.get("/api/begin").json()["name"] == "Ann"
    assert browser(page).post("/api/join", json={"name": "Ann"}).status_code == 409


def test_what_is_no_text_is_no_name_and_no_note(client: Any, page: Page) -> None:
    for name in (None, 5, ["q"], {"a": 1}, True):
        assert client.post("/api/join", json={"name": name}).status_code == 422
    assert page.store.people() == {}
    pair = joined(client, "Ann")["pairs"][0]
    for field in ("id", "left", "right", "verdict", "shown", "note"):
        sent = said(pair, 1) | {field: ["q"]}
        assert client.post("/api/answers", json=sent).status_code == 422
    assert client.post("/api/undo", json={"id": None}).status_code == 422
    assert page.number == 0


@pytest.mark.parametrize(
    "change",
    [
        {"left": "nothing"},
        {"verdict": "best"},
        {"id": "1"},
        {"id": "../" * 10},
        {"right": ["list"]},
    ],
)
def test_answers_that_are_none(client: Any, page: Page, change: dict[str, Any]) -> None:
    pairs = joined(client, "Ann")["pairs"]
    response = client.post("/api/answers", json=said(pairs[0], 1) | change)
    assert response.status_code == 422 and response.json()["problem"]
    assert page.number == 0


def test_names_given_in_one_browser_take_no_more_cookies_than_one(page: Page) -> None:
    with browser(page) as client:
        for number in range(25):
            joined(client, f"person {number}")
        assert {name.rpartition("_")[2] for name in client.cookies} == {"person", "before"}
        assert joined(client, "Person 5")["name"] == "person 5"
        assert client.post("/api/join", json={"name": "person 4"}).status_code == 409


def test_names_that_are_none(client: Any) -> None:
    for name in ("", "  ", "x" * 61, "bell\x07"):
        assert client.post("/api/join", json={"name": name}).status_code == 422


def test_results_are_the_owners(client: Any, page: Page) -> None:
    for path in ("/results", "/api/results", "/results.svg", "/ranking.csv"):
        assert client.get(path).status_code == 403
    assert client.get("/results?key=wrong").status_code == 403
    owner = page.store.setting("owner")
    assert client.get(f"/results?key={owner}", follow_redirects=False).status_code == 303
    assert client.get("/results").status_code == 200
    for path in ("/results.svg", "/ranking.csv"):
        assert client.get(path).status_code == 404
    page.results.take(Learned(3, html="x", csv=b"rank", picture=b"<svg/>", settled=0.4))
    assert client.get("/api/results").json()["settled"] == 0.4
    assert client.get("/results.svg").headers["content-type"] == "image/svg+xml"
    assert client.get("/ranking.csv").headers["content-type"].startswith("text/csv")


def test_a_key_where_others_may_reach_it(made: Made) -> None:
    page = made(open_to_all=False)
    with testclient.TestClient(page.app(), base_url=ROOT) as client:
        for path in ("/", "/api/begin", "/media/0/0"):
            assert client.get(path).status_code == 403
        assert client.post("/api/join", json={"name": "Ann"}).status_code == 403
        response = client.get(f"/?key={page.store.setting('key')}", follow_redirects=False)
        assert response.headers["location"] == "./"
        assert "HttpOnly" in response.headers["set-cookie"]
        assert "SameSite=lax" in response.headers["set-cookie"]
        assert client.post("/api/join", json={"name": "Ann"}).status_code == 200


def test_links_of_their_own_and_nobody_else(made: Made) -> None:
    tokens = made(invited=["Ann", "Bob"]).store.tokens
    page = made(open_to_all=False, invited=["Ann"])
    assert page.store.tokens == {"Ann": tokens["Ann"]}
    with testclient.TestClient(page.app(), base_url=ROOT) as client:
        client.get(f"/?key={page.store.setting('key')}")
        client.get(f"/?person={tokens['Bob']}")
        assert client.get("/api/begin").status_code == 403
        client.get(f"/?person={tokens['Ann']}")
        assert client.get("/api/begin").json()["name"] == "Ann"
        assert client.post("/api/join", json={"name": "Cid"}).status_code == 403


@pytest.mark.parametrize("name", ["Ann", "ann", " AN n ", "Ａnn"])
def test_a_name_with_a_link_is_reached_by_that_alone(made: Made, name: str) -> None:
    page = made()
    with browser(page) as before:
        pair = joined(before, name)["pairs"][0]
        assert before.post("/api/answers", json=said(pair, 1)).status_code == 200
    # What somebody was who is invited now, nobody is without the link.
    page = made(open_to_all=False, invited=["Ann"])
    assert page.store.joined_before == [" ".join(name.split())]
    again = browser(page)
    again.cookies = before.cookies
    assert again.get("/api/begin").status_code == 403
    # Nor where others may join again.
    page = made()
    again = browser(page)
    again.cookies = before.cookies
    assert again.get("/api/begin").json()["name"] is None
    refused = again.post("/api/join", json={"name": name})
    assert refused.status_code == 409 and "link of its own" in refused.json()["problem"]
    assert again.post("/api/join", json={"name": "Anna"}).status_code == 200
    invited = browser(page)
    token = made(invited=["Ann"]).store.tokens["Ann"]
    assert invited.get(f"/?person={token}").status_code == 200
    assert invited.get("/api/begin").json()["name"] == "Ann"


def test_whoever_gets_no_pair_reads_why(made: Made) -> None:
    page = made(closest=0.6)
    with browser(page) as client:
        why_no_pair(client, page)


def why_no_pair(client: Any, page: Page) -> None:
    state = joined(client, "Ann")
    assert len(state["pairs"]) == 2 and state["none"] == ""
    page.results.take(Learned(9, uneven=Uneven(np.zeros(4), np.ones(4), 1.0, 0.6), html="x"))
    pairs, number = state["pairs"], 0
    while pairs:  # of the first round, in which every item is shown twice
        held = [[one["name"] for one in each] for each in pairs]
        state = client.post("/api/answers", json=said(pairs.pop(0), number, held=held)).json()
        pairs += state["pairs"]
        number += 1
    assert 4 <= number < 6 and state["none"] == TOO_EVEN
    page.results.take(Learned(9, html="x"))
    while pairs := client.get("/api/more").json()["pairs"]:
        client.post("/api/answers", json=said(pairs[0], number))
        number += 1
    assert number == 6 and client.get("/api/more").json()["none"] == ANSWERED_ALL


def test_all_pairs_handed_out_are_not_all_answered(client: Any) -> None:
    pairs = joined(client, "Ann")["pairs"]
    while len(pairs) < 6:
        pairs += client.get("/api/more").json()["pairs"]
    held = [[one["name"] for one in pair] for pair in pairs]
    state = client.post("/api/answers", json=said(pairs[0], 1, held=held)).json()
    assert state["pairs"] == [] and state["none"] == ""


def test_a_reload_gets_what_was_handed_out(client: Any) -> None:
    client.post("/api/join", json={"name": "Ann"})
    for _ in range(5):
        pairs = client.get("/api/begin").json()["pairs"]
        assert len({frozenset(one["name"] for one in pair) for pair in pairs}) == 2


def test_half_a_character_stops_nobody(client: Any, page: Page) -> None:
    pairs = joined(client, "Ann")["pairs"]
    headers = {"content-type": "application/json"}
    for name in ("note", "id", "left"):
        sent = json.dumps(said(pairs[0], 1) | {name: "\ud800"})
        assert client.post("/api/answers", content=sent, headers=headers).status_code == 422
    assert client.post("/api/answers", json=said(pairs[0], 1, note="fine")).status_code == 200
    assert client.get("/", headers={"origin": "http://["}).status_code == 403


def test_pictures_come_from_their_folder_alone(client: Any, things: Things) -> None:
    places = pictures(client)
    response = client.get(places["0.svg"])
    assert response.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in response.headers["content-security-policy"]
    wrong = ("9/0", "../secret.png", "%2e%2e%2fsecret.png", "0/0.svg", "0", "0/%2e%2e%2fsecret.png")
    for place in wrong:
        assert client.get(f"/media/{place}").status_code == 404
    folder = things.folder
    assert folder is not None
    (folder / "1.svg").unlink()
    (folder / "1.svg").symlink_to(folder.parent / "secret.png")
    assert client.get(places["1.svg"]).status_code == 404


def pictures(client: Any) -> dict[str, str]:
    """Where the picture of each item is, of those that are handed out."""
    if client.get("/api/begin").json()["name"] is None:
        joined(client, "Pia")
    pairs = [pair for _ in range(20) for pair in client.get("/api/more").json()["pairs"]]
    names = ["a/b.png", '"q"', "<script>alert(1)</script>", "plain"]
    return {f"{names.index(one['name'])}.svg": one["media"] for pair in pairs for one in pair}


def test_an_address_of_a_picture_is_of_one_version_of_one_file(client: Any, things: Things) -> None:
    assert things.folder is not None
    before = pictures(client)
    assert len(set(before.values())) == 4
    # The same names in another folder, as of another page at the same port.
    other = things.folder.with_name("other")
    shutil.copytree(things.folder, other)
    object.__setattr__(things, "folder", other)
    assert client.get(before["0.svg"]).status_code == 404
    elsewhere = pictures(client)
    assert not {*before.values()} & {*elsewhere.values()}
    assert client.get(elsewhere["0.svg"]).status_code == 200
    # Another picture under the same name, and as large.
    (other / "0.svg").write_text((other / "0.svg").read_text())
    os.utime(other / "0.svg", ns=(1, 1))
    assert client.get(elsewhere["0.svg"]).status_code == 404
    assert client.get(pictures(client)["0.svg"]).status_code == 200


def test_only_files_of_the_page(client: Any) -> None:
    assert client.get("/page.js").status_code == 200
    for name in ("page.html", "server.py", "..%2fserver.py", "votes.sqlite"):
        assert client.get(f"/{name}").status_code == 404


def test_other_hosts_other_pages_and_large_bodies(client: Any) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"host": "127.0.0.1.evil.example"}).status_code == 421
    headers = {"origin": "http://evil.example"}
    assert client.post("/api/join", json={"name": "x"}, headers=headers).status_code == 403
    assert client.post("/api/join", data="name=x").status_code == 415
    big = {"name": "x" * MOST_BYTES}
    assert client.post("/api/join", json=big).status_code == 413
    assert client.post("/api/join", json=["x"]).status_code == 422
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_a_disk_that_is_full_is_said_and_nothing_lost(
    client: Any, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = joined(client, "Ann")["pairs"]
    keep = page.store.keep

    def full(_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(page.store, "keep", full)
    response = client.post("/api/answers", json=said(pairs[0], 1))
    assert response.status_code == 507 and "disk is full" in response.json()["problem"]
    assert page.number == 0
    monkeypatch.setattr(page.store, "keep", keep)
    assert client.post("/api/answers", json=said(pairs[0], 1)).json()["mine"] == 1
    monkeypatch.setattr(page.store, "join", full)
    response = browser(page).post("/api/join", json={"name": "Bea"})
    assert response.status_code == 507 and "sent again" not in response.json()["problem"]


def test_it_ends_when_the_answers_are_there(made: Made) -> None:
    ended = []
    page = made(lambda: ended.append(True), most_answers=2)
    with testclient.TestClient(page.app(), base_url=ROOT) as client:
        pairs = joined(client, "Ann")["pairs"]
        other = browser(page)
        joined(other, "Bea")
        client.get("/api/more?pairs=0", headers={SENT_BY: "another tab"})
        for number in (1, 2):
            assert not ended
            assert not client.get("/api/more").json()["finished"]
            state = client.post("/api/answers", json=said(pairs[number - 1], number)).json()
        assert state["finished"] and state["pairs"] == [] and state["none"] == FINISHED
        # As soon as all pages that are open know, of one person too.
        assert not ended
        client.headers[SENT_BY] = "another tab"
        assert client.post("/api/undo", json={"id": f"{1:032x}"}).status_code == 409
        other.get("/api/more?pairs=0")
        assert not ended
        state = client.get("/api/more?pairs=0").json()
        assert ended == [True] and state["all"] == 2
        assert state["finished"] and state["pairs"] == [] and state["none"] == FINISHED


def test_it_ends_where_a_page_was_closed(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINGERS", 0.2)
    over = threading.Event()
    page = made(over.set, most_answers=1)
    with testclient.TestClient(page.app(), base_url=ROOT) as client:
        joined(browser(page), "Bea")
        client.post("/api/answers", json=said(joined(client, "Ann")["pairs"][0], 1))
        assert over.wait(60.0)


def test_below_a_path(made: Made) -> None:
    page = made(base_path="/votes")
    with testclient.TestClient(page.app(), base_url=ROOT) as client:
        assert client.get("/votes/").status_code == 200
        response = client.post("/votes/api/join", json={"name": "Ann"})
        assert "Path=/votes/" in response.headers["set-cookie"]
        assert client.get("/votes/api/begin").json()["name"] == "Ann"


def test_what_was_learned_becomes_the_queue(client: Any, page: Page, things: Things) -> None:
    names = list(things.names)
    page.results.take(Learned(5, [(names[0], names[1]), ("gone", names[1])], html="x"))
    assert page._pairing._queue == [(0, 1)]
    client.get(f"/results?key={page.store.setting('owner')}")
    page.results.take(Learned(0, problem="no"))
    state = client.get("/api/results").json()
    assert (state["learned"], state["html"], state["problem"]) == (5, "x", "no")
