"""Downloads from a server on this machine: once, checked, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

pytest.importorskip("pandas")
pytest.importorskip("pooch")

from sparse_prefgp.cli.app import app
from sparse_prefgp.datasets import fetching, loading
from sparse_prefgp.datasets.registry import REGRESSION, SETS, DataSet, RemoteFile
from sparse_prefgp.disk.folders import contents

pytestmark = pytest.mark.data

ARFF = b"@relation r\n@attribute a real\n@attribute b real\n@data\n1,2\n3,5\n"
OTHER = ARFF.replace(b"5", b"6")


class Server:
    """Answers with what `files` holds, by path, and counts the requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()  # whose connection breaks half way
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                body = outer.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if self.path in outer.cut else body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    found = Server()
    found.files["/toy.arff"] = ARFF
    yield found
    found.stop()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no local folder."""
    monkeypatch.delenv(fetching.DATA_VARIABLE, raising=False)
    monkeypatch.setenv(fetching.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def toy(server, monkeypatch):
    """A set of two rows on that server."""
    return put(monkeypatch, server.url)


def put(monkeypatch, url, sha256=None, files=("toy.arff",)):
    remote = tuple(RemoteFile(file, f"{url}/{file}", sha256) for file in files)
    known = DataSet("toy", REGRESSION, {"toy.csv": None}, items=2, features=1, remote=remote)
    monkeypatch.setitem(SETS, "toy", known)
    return known


def digest(content):
    return hashlib.sha256(content).hexdigest()


def test_the_first_download_is_recorded_and_the_second_is_none(server, cache, toy):
    found = loading.load("toy")
    assert found.target.tolist() == [2, 5] and list(found.features["a"]) == [1, 3]
    record = json.loads((cache / "toy" / "tidy" / "made.json").read_text())
    assert record["raw"] == {"toy.arff": digest(ARFF)}
    assert server.requests == ["/toy.arff"]
    server.files.clear()
    assert loading.load("toy").target.tolist() == [2, 5]
    assert server.requests == ["/toy.arff"]
    assert contents(cache / "toy") == {"raw", "tidy"}
    assert contents(cache / "toy" / "raw") == {"toy.arff"}
    assert contents(cache / "toy" / "tidy") == {"toy.csv", "made.json"}


def test_a_download_unlike_the_known_one_is_not_kept(server, cache, monkeypatch):
    put(monkeypatch, server.url, digest(OTHER))
    with pytest.raises(ValueError, match="a newer version") as caught:
        loading.load("toy")
    assert digest(ARFF) in str(caught.value) and digest(OTHER) in str(caught.value)
    assert contents(cache / "toy" / "raw") == set()


def test_another_download_than_recorded_leaves_the_old_file(server, cache, toy):
    loading.load("toy")
    server.files["/toy.arff"] = OTHER
    with pytest.raises(ValueError, match="or accept it by deleting the folder") as caught:
        loading.fetch("toy", refresh=True)
    sentence = str(caught.value)
    assert digest(ARFF) in sentence and digest(OTHER) in sentence
    assert (cache / "toy" / "raw" / "toy.arff").read_bytes() == ARFF
    assert loading.load("toy").target.tolist() == [2, 5]
    shutil.rmtree(cache / "toy")  # as the sentence says
    assert loading.load("toy").target.tolist() == [2, 6]


def test_the_same_download_again(server, cache, toy):
    loading.fetch("toy")
    loading.fetch("toy", refresh=True)
    assert server.requests == ["/toy.arff"] * 2


def test_a_cached_file_that_was_changed(server, cache, toy):
    loading.load("toy")
    tidy = cache / "toy" / "tidy" / "toy.csv"
    tidy.write_text("a,target\n0,0\n")
    with pytest.raises(ValueError, match="changed since it was made; delete it"):
        loading.load("toy")
    tidy.unlink()
    assert loading.load("toy").target.tolist() == [2, 5]
    tidy.unlink()
    (cache / "toy" / "raw" / "toy.arff").write_bytes(OTHER)  # downloaded again
    assert loading.load("toy").target.tolist() == [2, 5]
    assert server.requests == ["/toy.arff"] * 2


def test_no_network(server, cache, toy):
    server.stop()
    with pytest.raises(ConnectionError, match=r"ConnectionError.*SPARSE_PREFGP_DATA") as caught:
        loading.load("toy")
    assert f"{server.url}/toy.arff" in str(caught.value)


def test_an_address_without_the_file(server, cache, toy):
    server.files.clear()
    with pytest.raises(ConnectionError, match="status 404"):
        loading.load("toy")
    assert contents(cache / "toy" / "raw") == set()


def test_a_download_that_breaks_off_leaves_nothing(server, cache, toy):
    server.cut.add("/toy.arff")
    with pytest.raises(ConnectionError, match="cannot be downloaded"):
        loading.load("toy")
    assert contents(cache / "toy" / "raw") == set()
    assert list((cache / "toy" / "raw").iterdir()) == []
    server.cut.clear()
    assert loading.load("toy").target.tolist() == [2, 5]


def test_files_that_were_there_before_a_break_are_kept(server, cache, monkeypatch):
    known = put(monkeypatch, server.url, files=("toy.arff", "more.arff"))
    with pytest.raises(ConnectionError, match=r"more\.arff"):
        fetching.download(known, {})
    server.files["/more.arff"] = OTHER
    seen = []
    paths = fetching.download(known, {}, progress=lambda done, total: seen.append((done, total)))
    assert server.requests.count("/toy.arff") == 1
    assert seen == [(1, 2), (2, 2)]
    assert paths["more.arff"].read_bytes() == OTHER


def test_a_public_file_of_another_form_leaves_no_tidy_one(server, cache, toy):
    server.files["/toy.arff"] = b"<html>moved</html>"
    reason = r"'toy' are not as expected \(ValueError: .*\); delete '.*toy' to download them again"
    with pytest.raises(ValueError, match=reason):
        loading.load("toy")
    assert not (cache / "toy" / "tidy").exists()


def test_another_size_than_known_is_told(server, cache, toy):
    server.files["/toy.arff"] = ARFF + b"7,8\n"
    with pytest.warns(UserWarning, match="'toy' has 3 items as made from its public files, not 2"):
        loading.load("toy")


def test_without_pooch(cache, toy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install .\.\[cli\]. in the folder"):
        loading.load("toy")
    monkeypatch.delenv(fetching.CACHE_VARIABLE)
    with pytest.raises(ModuleNotFoundError, match=r"pip install .\.\[cli\]. in the folder"):
        loading.load("toy")
    # The list needs none of it.
    assert loading.where(SETS["boston"]) == "download"
    listed = CliRunner().invoke(app, ["datasets"])
    assert listed.exit_code == 0 and "boston" in listed.output and "download" in listed.output


def test_each_public_file_has_its_own_name_and_address():
    for known in SETS.values():
        assert len({file.name for file in known.remote}) == len(known.remote) > 0
        assert len({file.url for file in known.remote}) == len(known.remote)
        assert all(file.url.startswith("http") for file in known.remote)
        assert known.home.startswith("http") and known.licence and known.citation
