"""Downloads against a server on this machine: broken, changed, moved, missing."""

import errno
import hashlib
import random

import pytest
from corpus_server import served

from keras_msd.checks import InputError
from keras_msd.data.corpora import download
from keras_msd.data.corpora.catalogue import RemoteFile
from keras_msd.data.corpora.download import fetch, size_of

DATA = random.Random(3).randbytes(50_000)
OTHER = random.Random(4).randbytes(60_000)


@pytest.fixture
def home(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(download.MIRROR, raising=False)
    monkeypatch.setattr(download, "PAUSE", 0)
    with served() as one:
        one.files["/a.zip"] = DATA
        yield one


def remote_file(home, data=None, path="/a.zip"):
    known = (len(data), hashlib.sha256(data).hexdigest()) if data else ()
    return RemoteFile(home.url + path, *known)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fails(home, folder, match, data=None, path="/a.zip"):
    with pytest.raises(InputError, match=f"(?s){match}") as caught:
        fetch(remote_file(home, data, path), folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "sized", "verified"),
    [(DATA, True, "sha256"), (None, True, "size"), (None, False, "nothing")],
)
def test_whole_file(home, tmp_path, data, sized, verified):
    home.sized = sized
    got = fetch(remote_file(home, data), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == DATA
    assert got == {
        "bytes": len(DATA),
        "sha256": hashlib.sha256(DATA).hexdigest(),
        "verified": verified,
        "etag": home.etag("/a.zip"),
    }
    assert names(tmp_path) == ["a.zip"]
    fetch(remote_file(home, data), tmp_path)
    assert home.gets() == [None], "a file that is there is not asked for again"


def test_goes_on_where_the_connection_broke(home, tmp_path):
    home.breaks = [20_000, 10_000]
    fetch(remote_file(home), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == DATA
    assert home.gets() == [None, "bytes=20000-", "bytes=30000-"]


def test_goes_on_in_a_later_call(home, tmp_path):
    home.breaks = [20_000] + [0] * (download.TRIES - 1)
    text = fails(home, tmp_path, r"broke off after 20,000 bytes, 5 times in a row")
    assert "The same command goes on" in text
    assert names(tmp_path) == ["a.zip.part", "a.zip.part.json"]
    home.asked.clear()
    fetch(remote_file(home, DATA), tmp_path)
    assert home.gets() == ["bytes=20000-"]
    assert (tmp_path / "a.zip").read_bytes() == DATA


def test_part_that_was_whole_needs_no_request(home, tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_look", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch(remote_file(home), tmp_path)
    monkeypatch.undo()
    home.asked.clear()
    fetch(remote_file(home), tmp_path)
    assert home.asked == []
    assert (tmp_path / "a.zip").read_bytes() == DATA


@pytest.mark.parametrize("how", ["no ranges", "no tag", "weak tag"])
def test_starts_again_where_the_server_cannot_go_on(home, tmp_path, how):
    home.breaks = [20_000]
    home.ranges, home.tagged = how != "no ranges", how != "no tag"
    if how == "weak tag":
        home.etags["/a.zip"] = 'W/"1"'
    fetch(remote_file(home), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == DATA
    assert home.gets() == [None, "bytes=20000-" if how == "no ranges" else None]


@pytest.mark.parametrize("if_range", [True, False])
@pytest.mark.parametrize("new", [OTHER, DATA[::-1], OTHER[:100]])
def test_file_changed_between_the_parts(home, tmp_path, if_range, new):
    home.breaks = [20_000] + [0] * (download.TRIES - 1)
    fails(home, tmp_path, "broke off")
    home.files["/a.zip"], home.if_range = new, if_range
    home.asked.clear()
    fetch(remote_file(home), tmp_path)
    assert home.gets() == ["bytes=20000-"] + [None] * (not if_range)
    assert (tmp_path / "a.zip").read_bytes() == new


def test_passing_refusals_are_waited_out(home, tmp_path):
    home.statuses = [503, 429, 500]
    fetch(remote_file(home), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == DATA
    home.files["/b.zip"], home.statuses = DATA, [503] * 9
    fails(home, tmp_path, "broke off after 0 bytes.*503", path="/b.zip")


@pytest.mark.parametrize(("known", "what"), [(DATA[::-1], "SHA-256"), (OTHER, "bytes")])
def test_wrong_content_is_deleted(home, tmp_path, known, what):
    text = fails(home, tmp_path, f"must have .*{what}.*Received.*deleted", known)
    if what == "SHA-256":
        assert hashlib.sha256(DATA).hexdigest() in text
        assert hashlib.sha256(known).hexdigest() in text
    assert names(tmp_path) == []


def test_wrong_file_put_by_hand_stays(home, tmp_path):
    (tmp_path / "a.zip").write_bytes(OTHER)
    fails(home, tmp_path, "a.zip` must have 50,000 bytes.*60,000.*Delete it", DATA)
    assert (tmp_path / "a.zip").read_bytes() == OTHER


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_refusals(home, tmp_path, status):
    home.statuses = [status]
    said = "does not exist" if status in (404, 410) else "was not given"
    text = fails(home, tmp_path, f"a.zip` {said}: its home answered {status}")
    assert home.url in text
    assert len(home.asked) == 1
    assert names(tmp_path) == []


def test_redirects(home, tmp_path):
    home.moved = {"/old.zip": "/mid.zip", "/mid.zip": f"{home.url}/a.zip"}
    assert size_of(f"{home.url}/old.zip") == len(DATA)
    assert {method for method, _, _ in home.asked} == {"HEAD"}
    home.breaks = [20_000]
    fetch(remote_file(home, path="/old.zip"), tmp_path)
    assert (tmp_path / "old.zip").read_bytes() == DATA
    assert home.asked[-1] == ("GET", "/a.zip", "bytes=20000-")
    home.moved["/a.zip"] = "/old.zip"
    fails(home, tmp_path, "a.zip` was not given: its home answered 302")
    home.moved["/a.zip"] = "file:///etc/passwd"
    fails(home, tmp_path, "a.zip` was not given.*file:///etc/passwd")


def test_from_https_only_to_https():
    asked = download.urllib.request.Request("https://a.b/c")
    with pytest.raises(InputError, match="not followed"):
        download._Redirects().redirect_request(asked, None, 302, "", {}, "http://a.b/c")


def test_sizes(home):
    assert size_of(f"{home.url}/a.zip") == len(DATA)
    home.sized = False
    assert size_of(f"{home.url}/a.zip") is None
    home.head = False
    assert size_of(f"{home.url}/a.zip") is None
    home.head = True
    with pytest.raises(InputError, match="does not exist"):
        size_of(f"{home.url}/b.zip")


def test_web_page_in_place_of_the_file(home, tmp_path):
    home.kind = "text/html; charset=utf-8"
    fails(home, tmp_path, "gave a web page in place of the file")
    assert names(tmp_path) == []


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served() as gone:
        pass
    fails(gone, tmp_path, "a.zip` cannot be reached .*refused")


def test_mirror(home, tmp_path, monkeypatch):
    monkeypatch.setenv(download.MIRROR, f"{home.url}/corpora/")
    home.files["/corpora/a.b/c/d.zip"] = OTHER
    fetch(RemoteFile("https://a.b/c/d.zip"), tmp_path)
    assert (tmp_path / "d.zip").read_bytes() == OTHER


def test_killed_before_the_first_byte_of_a_new_version(home, tmp_path, monkeypatch):
    home.breaks = [20_000] + [0] * (download.TRIES - 1)
    fails(home, tmp_path, "broke off")
    home.files["/a.zip"] = OTHER

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_blocks", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch(remote_file(home), tmp_path)
    monkeypatch.undo()
    fetch(remote_file(home), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == OTHER


def test_network_lost_in_the_middle(home, tmp_path, monkeypatch):
    read, lost = download._blocks, [errno.EHOSTUNREACH, errno.ENETDOWN]

    def blocks(response):
        if lost:
            raise OSError(lost.pop(), "no way there")
        return read(response)

    monkeypatch.setattr(download, "_blocks", blocks)
    monkeypatch.setattr(download, "PAUSE", 0)
    fetch(remote_file(home), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == DATA
    lost.append(errno.ENOSPC)
    home.files["/b.zip"] = OTHER
    with pytest.raises(OSError, match="no way there"):
        fetch(remote_file(home, path="/b.zip"), tmp_path)


@pytest.mark.parametrize("length", ["", "-1", "²", "9" * 5000, "1_0", " 7"])
def test_sizes_that_are_no_numbers(length):
    """A server sends what it likes."""
    assert download._length({"Content-Length": length}) is None
    with pytest.raises(download.RangeRefused):
        download._content_range(f"bytes {length}-9/10")
    assert download._length({"Content-Length": "12"}) == 12
    assert download._content_range("bytes 3-9/10") == (3, 10)
