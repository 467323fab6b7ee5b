"""`sparse-prefgp ask` as a process, and its page in a real browser."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.io.votes import FILE
from tests.asking_page import answered, running
from tests.killing import started

pytest.importorskip("uvicorn", reason="the extra ask is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
KILLS = 50
PATIENCE = 600.0  # seconds: how long it takes on a busy machine says nothing
# A double click is no answer to the next pair.
READY = "pairs.length > 0 && performance.now() - shownAt >= SECOND_CLICK"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so that the page is not looked at")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


def answers_in(folder: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(folder / FILE)
    try:
        return connection.execute(
            'select id, "left", "right", verdict, undone from answers order by rowid'
        ).fetchall()
    finally:
        connection.close()


def comes_true(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def refused(*words: str) -> str:
    """What a call says that ends with exit code 2."""
    call = started(["ask", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = call.communicate(timeout=PATIENCE)[0]
    assert call.returncode == 2, said
    assert "Traceback" not in said and said.startswith("Error: ")
    return said


def seen_in(browser: Any, **settings: Any) -> Any:
    page = browser.new_context(**settings).new_page()
    page.set_default_timeout(1000.0 * PATIENCE)
    return page


def test_a_person_answers_in_a_browser(browser: Any, tmp_path: Path) -> None:
    with running("--demo", "--ties", out=tmp_path / "votes") as run:
        page = seen_in(browser, viewport={"width": 390, "height": 800}, has_touch=True)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(run.page)
        page.fill("#name", "Ann")
        page.tap("#who button")
        page.wait_for_selector("#asking:not([hidden])")
        acts = [
            lambda: page.keyboard.press("ArrowLeft"),
            lambda: page.click("#say-right"),
            lambda: page.tap("#left"),
            lambda: page.keyboard.press("ArrowDown"),
            lambda: page.click("#say-skip"),
        ]
        for number in range(20):
            comes_true(lambda: page.evaluate(READY))
            acts[number % 5]()
        page.keyboard.press("z")
        page.click("#before summary")
        page.click("#last li:nth-child(3) button")
        comes_true(lambda: page.evaluate("Object.keys(localStorage).length") == 0)
        seen = page.inner_text("#progress")
        page.reload()
        page.wait_for_selector("#asking:not([hidden])")
        assert page.inner_text("#progress") == seen
        assert page.locator("#last li").count() == 8  # of ten two were taken back
        page.click("#not-me")
        assert not page.is_visible("#asking") and not page.is_visible("#me")
        page.click("#go-on")
        comes_true(lambda: page.evaluate(READY))
        assert page.inner_text("#me").startswith("Ann answers here.")
        page.click("#not-me")
        page.fill("#name", "Bea")
        page.click("#who button")
        comes_true(lambda: page.evaluate(READY))
        assert page.inner_text("#me").startswith("Bea answers here.")
        assert page.locator("#last li").count() == 0
        assert not faults
        assert "by 1 person" in run.end()
    kept = answers_in(tmp_path / "votes")
    assert len(kept) == 20 and sum(row[4] is not None for row in kept) == 2
    assert {row[3] for row in kept} == {"left", "right", "tie", "skip"}


def answer_once(page: Any, key: str = "ArrowLeft") -> None:
    comes_true(lambda: page.evaluate(READY))
    page.keyboard.press(key)


def nothing_waits(page: Any) -> bool:
    return bool(page.evaluate("Object.keys(localStorage).length === 0"))


@pytest.mark.slow
def test_what_waits_is_of_the_one_who_said_it(browser: Any, tmp_path: Path) -> None:
    people, out = tmp_path / "people.csv", tmp_path / "votes"
    people.write_text("name\nAnn\nBjörn\n")
    with running("--demo", "--people", str(people), out=out) as run:
        ann = seen_in(browser)
        ann.goto(run.people["Ann"])
        comes_true(lambda: ann.evaluate(READY))
        assert ann.inner_text("#me").startswith("Ann answers here.")
        assert not ann.is_visible("#not-me")
        assert ann.get_attribute("#say-left", "aria-label").startswith("This one: ")
        bjorn = ann.context.new_page()
        bjorn.set_default_timeout(1000.0 * PATIENCE)
        bjorn.goto(run.people["Björn"])
        answer_once(ann)
        ann.wait_for_selector("#go-on:not([hidden])")
        assert "Björn is signed in here now" in ann.inner_text("#notice")
        assert not ann.is_visible("#asking")
        assert answers_in(out) == [] and not nothing_waits(ann)
        # Whoever goes on there is Björn, and Ann's answer stays.
        ann.click("#go-on")
        answer_once(ann)
        comes_true(lambda: len(answers_in(out)) == 1)
        assert ann.inner_text("#me").startswith("Björn answers here.")
        assert not nothing_waits(ann)
        bjorn.goto(run.people["Ann"])
        comes_true(lambda: nothing_waits(bjorn))
        assert bjorn.locator("#last li").count() == 1  # it can be taken back
        said = run.end()
    assert "2 answers by 2 people" in said
    with closing(sqlite3.connect(out / FILE)) as connection:
        by = connection.execute("select person from answers order by rowid").fetchall()
    assert by == [("Björn",), ("Ann",)]


def test_what_waits_goes_in_order_whatever_the_clock_says(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "votes"
    with running("--demo", out=out) as run:
        page = seen_in(browser)
        page.goto(run.page)
        page.fill("#name", "Ann")
        page.click("#who button")
        comes_true(lambda: page.evaluate(READY))
        sent: list[str] = []
        page.context.route("**/api/*", lambda route: (sent.append(""), route.abort()))
        answer_once(page)
        page.evaluate("Date.now = () => 1000")
        page.keyboard.press("z")
        comes_true(lambda: len(sent) > 0)
        page.close()
        again = page.context.new_page()
        again.set_default_timeout(1000.0 * PATIENCE)
        again.context.unroute("**/api/*")
        again.goto(run.page)
        comes_true(lambda: nothing_waits(again))
        assert again.inner_text("#saving") == ""
    (row,) = answers_in(out)
    assert row[4] is not None


@pytest.mark.slow
def test_what_waits_of_somebody_who_was_forgotten_goes(browser: Any, tmp_path: Path) -> None:
    out, port = tmp_path / "votes", free_port()
    with running("--demo", out=out, port=port) as run:
        page = seen_in(browser)
        page.goto(run.page)
        page.fill("#name", "Ann")
        page.click("#who button")
        answer_once(page)
        comes_true(lambda: len(answers_in(out)) == 1)
        run.end()
    answer_once(page)
    with started(["ask", "--out", str(out), "--forget", "Ann"]) as call:
        assert call.wait(PATIENCE) == 0
    with running("--demo", out=out, port=port):
        page.wait_for_selector("#who:not([hidden])")
        assert "Ann: no longer known here" in page.inner_text("#notice")
        assert nothing_waits(page) and not page.is_visible("#asking")
        page.fill("#name", "Bea")
        page.click("#who button")
        comes_true(lambda: page.evaluate(READY))
        assert answers_in(out) == []


@pytest.mark.slow
def test_a_page_says_that_all_is_there(browser: Any, tmp_path: Path) -> None:
    with running("--demo", "--until", "3", out=tmp_path / "votes") as run:
        page = seen_in(browser)
        page.goto(run.page)
        page.fill("#name", "Ann")
        page.click("#who button")
        answer_once(page)
        comes_true(lambda: nothing_waits(page) and page.evaluate(READY))
        other = seen_in(browser)
        other.goto(run.page)
        other.fill("#name", "Bea")
        other.click("#who button")
        answer_once(other)
        comes_true(lambda: nothing_waits(other))
        answer_once(other)
        for one in (other, page):  # whoever gave the last answer, and who looks at a pair
            one.wait_for_selector("#done:not([hidden])")
            assert one.inner_text("#done").startswith("All answers that were wanted are there.")
            assert not one.is_visible("#asking") and one.inner_text("#saving") == ""
        assert "3 answers by 2 people" in run.process.communicate(timeout=PATIENCE)[0]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_that_everybody_can_use(
    browser: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with running("--demo", "--ties", out=tmp_path / "votes") as run:
        page = seen_in(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)

        def serious() -> list[str]:
            found = axe.run(page).response["violations"]
            return [one["id"] for one in found if one["impact"] in ("serious", "critical")]

        page.goto(run.page)
        assert serious() == []
        page.fill("#name", "Ann")
        page.keyboard.press("Enter")
        page.wait_for_selector("#asking:not([hidden])")
        for _ in range(11):
            comes_true(lambda: page.evaluate(READY))
            page.keyboard.press("ArrowLeft")
        page.click("#before summary")
        assert serious() == []
        page.goto(run.results)
        page.wait_for_selector("#ranking table")
        first = page.inner_text("#ranking tbody tr:first-child")
        assert serious() == []
        # Answers move the ranking while it is looked at.
        asking = page.context.new_page()
        asking.set_default_timeout(1000.0 * PATIENCE)
        asking.goto(run.page)
        asking.wait_for_selector("#asking:not([hidden])")
        for _ in range(10):
            comes_true(lambda: asking.evaluate(READY))
            asking.keyboard.press("ArrowRight")
        comes_true(lambda: page.inner_text("#ranking tbody tr:first-child") != first)


@pytest.mark.slow
def test_one_page_of_a_folder_at_a_time(tmp_path: Path) -> None:
    out = str(tmp_path / "votes")
    assert "no votes" in refused("--out", out, "--forget", "Ann")
    with running("--demo", out=tmp_path / "votes") as run:
        assert "writing" in refused("--demo", "--out", out, "--port", "0")
        assert "writing" in refused("--out", out, "--forget", "Ann")
        run.process.send_signal(signal.SIGINT)  # whoever presses Ctrl-C twice
        assert "Traceback" not in run.end()
    assert "Nobody called 'Ann'" in refused("--out", out, "--forget", "Ann")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _items(path: Path, number: int) -> Path:
    pd.DataFrame({"item_id": [f"item {i:04d}" for i in range(number)]}).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_no_answer_is_lost_by_fifty_kills(tmp_path: Path) -> None:
    items, out = _items(tmp_path / "items.csv", 300), tmp_path / "votes"
    port = free_port()
    chance, over = random.Random(0), threading.Event()
    people: list[Any] = []
    client = threading.Thread(
        target=lambda: people.extend(
            answered(f"http://127.0.0.1:{port}/", 8, lambda: not over.is_set(), pause=0.01)
        )
    )
    client.start()
    for _ in range(KILLS):
        with running("--items", str(items), out=out, port=port) as run:
            time.sleep(chance.uniform(0.2, 1.5))
            run.process.kill()
            run.process.communicate()
    with running("--items", str(items), out=out, port=port):
        time.sleep(2.0)
        over.set()
        client.join()
    kept = answers_in(out)
    by_id = {row[0]: row[1:4] for row in kept}
    acknowledged = {id: said for one in people for id, said in one.acknowledged.items()}
    print(f"{len(acknowledged):,} acknowledged, {len(kept):,} kept, {KILLS} kills")
    assert len(by_id) == len(kept)
    assert all(by_id.get(id) == said for id, said in acknowledged.items())
    assert len(acknowledged) > 1000


@pytest.mark.slow
def test_two_hundred_people_at_once(tmp_path: Path) -> None:
    items, out = _items(tmp_path / "items.csv", 2000), tmp_path / "votes"
    with running("--items", str(items), out=out) as run:
        until = time.monotonic() + 120.0
        people = answered(run.page, 200, lambda: time.monotonic() < until, pause=1.0)
    answer = np.concatenate([one.answer_seconds for one in people])
    pair = np.concatenate([one.pair_seconds for one in people])
    assert not [error for one in people for error in one.errors]
    assert len(answers_in(out)) >= len(answer)
    print(
        f"{len(answer):,} answers; 99th percentile of an answer {np.quantile(answer, 0.99):.3f} s, "
        f"of the next pair {np.quantile(pair, 0.99):.3f} s"
    )
