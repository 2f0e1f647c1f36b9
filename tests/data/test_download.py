"""Downloads over networks that cut, stall, corrupt, redirect and refuse."""

import hashlib
import io
import tarfile
import zipfile

import numpy as np
import pytest
from unreliable_server import (
    UnreliableServer,
    answering,
    at_another_place,
    corrupted,
    cut,
    ignoring_ranges,
    redirecting,
    stalled,
    well,
    without_length,
)

from fedprof.data.catalogue import SOURCES, Download, File, Source
from fedprof.data.download import Patience, fetch
from fedprof.errors import DataError

HURRY = Patience(attempts=3, pause=0.001, stall=0.3)
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def server():
    with UnreliableServer() as running:
        yield running


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def source_of(*downloads):
    return Source("made-up", "Made up", "none", "nobody", (1,), 1, 0, downloads)


def plain(*urls, content=CONTENT, **more):
    return source_of(Download(urls, (File("made/up.bin", digest(content)),), **more))


def zipped(**members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def tarred(**members):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def packed(*urls, archive, names, checksum=None):
    files = tuple(File(f"made/{name}", digest(content)) for name, content in names.items())
    return source_of(Download(urls, files, archive=archive, checksum=checksum))


def arrived(home, name="up.bin"):
    return (home / "made" / name).read_bytes()


def nothing_left_but(home, *names):
    return sorted(path.name for path in (home / "made").iterdir()) == sorted(names)


def test_a_good_download_lands_in_its_place_and_tells_its_progress(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    told = []
    paths = fetch(plain(url), tmp_path, lambda *news: told.append(news), patience=HURRY)
    assert paths == [tmp_path / "made" / "up.bin"]
    assert arrived(tmp_path) == CONTENT
    assert nothing_left_but(tmp_path, "up.bin")
    assert told[-1] == ("up.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    for _ in range(2):
        fetch(plain(url), tmp_path, patience=HURRY)
    assert len(server.asked["/up.bin"]) == 1


def test_a_cut_download_is_resumed_where_it_stopped(server, tmp_path):
    url = server.add("/up.bin", CONTENT, cut(300_000), cut(200_000), well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/up.bin"] == [None, "bytes=300000-", "bytes=500000-"]


def test_a_stalled_download_is_given_up_and_resumed(server, tmp_path):
    url = server.add("/up.bin", CONTENT, stalled(100_000), well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/up.bin"] == [None, "bytes=100000-"]


def test_a_download_that_gains_bytes_is_never_given_up(server, tmp_path):
    url = server.add("/up.bin", CONTENT, *[cut(60_000)] * 12, well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert len(server.asked["/up.bin"]) > 3 * HURRY.attempts


def test_a_broken_download_is_resumed_by_the_next_call_too(server, tmp_path):
    url = server.add("/up.bin", CONTENT, cut(400_000), answering(404))
    with pytest.raises(DataError, match="answers 404"):
        fetch(plain(url), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path, "up.bin.file.part")
    server.add("/up.bin", CONTENT)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/up.bin"][-1] == "bytes=400000-"


def test_the_next_address_resumes_what_the_first_began(server, tmp_path):
    dead = server.add("/old.bin", CONTENT, cut(400_000), answering(404))
    alive = server.add("/new.bin", CONTENT)
    fetch(plain(dead, alive), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/new.bin"] == ["bytes=400000-"]


def test_a_server_that_ignores_ranges_sends_all_again(server, tmp_path):
    url = server.add("/up.bin", CONTENT, cut(300_000), ignoring_ranges)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


def test_a_server_that_resumes_elsewhere_is_not_believed(server, tmp_path):
    url = server.add("/up.bin", CONTENT, cut(300_000), at_another_place, well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


def test_a_finished_download_that_was_not_placed_is_not_fetched_again(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "up.bin.file.part").write_bytes(CONTENT)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/up.bin"] == [f"bytes={len(CONTENT)}-"]


def test_a_left_over_part_of_something_else_does_no_harm(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "up.bin.file.part").write_bytes(b"x" * 1000)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/up.bin"] == ["bytes=1000-", None]


def test_corrupted_content_is_fetched_once_more_from_the_start(server, tmp_path):
    url = server.add("/up.bin", CONTENT, corrupted, well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


def test_corrupted_content_never_reaches_its_place(server, tmp_path):
    url = server.add("/up.bin", CONTENT, corrupted)
    with pytest.raises(DataError, match=r"the checksum of up\.bin is wrong"):
        fetch(plain(url), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)
    assert len(server.asked["/up.bin"]) == 2


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed_and_resumed(code, server, tmp_path):
    url = server.add("/old.bin", b"", redirecting(code, "/new.bin"))
    server.add("/new.bin", CONTENT, cut(300_000), well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/new.bin"] == [None, "bytes=300000-"]


def test_a_redirect_to_a_home_page_leads_to_the_next_address(server, tmp_path):
    """As the old address of EMNIST does."""
    old = server.add("/old.bin", b"", redirecting(302, "/home"))
    server.add("/home", b"<html>Welcome</html>", ignoring_ranges)
    new = server.add("/new.bin", CONTENT)
    fetch(plain(old, new), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert server.asked["/new.bin"] == [None]


def test_endless_redirects_lead_to_the_next_address(server, tmp_path):
    loop = server.add("/loop", b"", redirecting(302, "/loop"))
    new = server.add("/new.bin", CONTENT)
    fetch(plain(loop, new), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1:9/x"])
def test_a_redirect_out_of_the_web_reads_nothing(target, server, tmp_path):
    url = server.add("/up.bin", b"", redirecting(302, target))
    with pytest.raises(DataError, match="cannot download made/up"):
        fetch(plain(url), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)


def test_not_found_is_not_tried_again_but_elsewhere(server, tmp_path):
    gone = server.add("/old.bin", b"", answering(404))
    there = server.add("/new.bin", CONTENT)
    fetch(plain(gone, there), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert len(server.asked["/old.bin"]) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_is_tried_again(code, server, tmp_path):
    url = server.add("/up.bin", CONTENT, answering(code), answering(code), well)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


def test_a_server_that_stays_in_trouble_is_given_up(server, tmp_path):
    sick = server.add("/old.bin", b"", answering(500))
    there = server.add("/new.bin", CONTENT)
    fetch(plain(sick, there), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT
    assert len(server.asked["/old.bin"]) == HURRY.attempts


def test_without_a_network_the_error_names_every_address_and_says_what_to_do(server, tmp_path):
    gone = server.add("/gone.bin", b"", answering(404))
    with pytest.raises(DataError) as caught:
        fetch(plain("http://127.0.0.1:9/up.bin", gone), tmp_path, patience=HURRY)
    text = str(caught.value)
    assert "http://127.0.0.1:9/up.bin: no connection" in text
    assert f"{gone}: the server answers 404" in text
    assert f"put the files into {tmp_path} yourself" in text


def test_a_server_that_does_not_tell_the_length_is_fine(server, tmp_path):
    url = server.add("/up.bin", CONTENT, without_length)
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == CONTENT


def test_more_bytes_than_the_catalogue_says_are_refused(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    with pytest.raises(DataError, match="more than the expected 1,000 bytes"):
        fetch(plain(url, size=1000), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_clear_error(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    (tmp_path / "made").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="cannot write to the data folder"):
        fetch(plain(url), tmp_path, patience=HURRY)


def test_a_zip_gives_its_members_wherever_they_lie_in_it(server, tmp_path):
    names = {"a.csv": b"1,2\n" * 1000, "b.csv": b"3\n"}
    content = zipped(**{"deep/er/a.csv": names["a.csv"], "b.csv": names["b.csv"], "unwanted.txt": b"?"})
    url = server.add("/all.zip", content, cut(500), well)
    fetch(packed(url, archive="zip", names=names, checksum=digest(content)), tmp_path, patience=HURRY)
    assert arrived(tmp_path, "a.csv") == names["a.csv"]
    assert nothing_left_but(tmp_path, "a.csv", "b.csv")


def test_a_tar_gives_its_members(server, tmp_path):
    batch = b"pixels" * 5000
    url = server.add("/all.tar.gz", tarred(**{"batches/one": batch}))
    fetch(packed(url, archive="tar", names={"one": batch}), tmp_path, patience=HURRY)
    assert arrived(tmp_path, "one") == batch


def test_paths_in_an_archive_never_become_paths_on_disk(server, tmp_path):
    home = tmp_path / "home"
    content = zipped(**{"../../up.bin": CONTENT, "/etc/evil": b"evil"})
    url = server.add("/all.zip", content)
    fetch(packed(url, archive="zip", names={"up.bin": CONTENT}), home, patience=HURRY)
    assert arrived(home) == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert nothing_left_but(home, "up.bin")


def test_a_link_in_a_tar_is_not_followed(server, tmp_path):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        link = tarfile.TarInfo("batches/one")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    url = server.add("/all.tar.gz", target.getvalue())
    with pytest.raises(DataError, match="not a usable archive"):
        fetch(packed(url, archive="tar", names={"one": b"pixels"}), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)


@pytest.mark.parametrize("archive", ["zip", "tar"])
@pytest.mark.parametrize("content", [b"<html>moved</html>", b"PK\x03\x04 broken", b"\x1f\x8b\x08 broken", b"x"])
def test_something_else_than_an_archive_leads_to_the_next_address(archive, content, server, tmp_path):
    url = server.add("/all", content, ignoring_ranges)
    with pytest.raises(DataError, match="not a usable archive"):
        fetch(packed(url, archive=archive, names={"a": b"a"}), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)


@pytest.mark.parametrize("archive", ["zip", "tar"])
def test_an_archive_broken_in_the_middle_leads_to_the_next_address(archive, server, tmp_path):
    names = {"a.csv": np.random.default_rng(0).bytes(100_000)}
    good = zipped(**names) if archive == "zip" else tarred(**names)
    broken = good[:50_000] + bytes(100) + good[50_100:]
    old, new = server.add("/old", broken, ignoring_ranges), server.add("/new", good)
    fetch(packed(old, new, archive=archive, names=names), tmp_path, patience=HURRY)
    assert arrived(tmp_path, "a.csv") == names["a.csv"]
    assert nothing_left_but(tmp_path, "a.csv")


def test_a_member_with_a_wrong_checksum_never_reaches_its_place(server, tmp_path):
    url = server.add("/all.zip", zipped(**{"a.csv": b"other"}))
    with pytest.raises(DataError, match=r"the checksum of a\.csv is wrong"):
        fetch(packed(url, archive="zip", names={"a.csv": b"right"}), tmp_path, patience=HURRY)
    assert nothing_left_but(tmp_path)


def test_an_archive_with_a_wrong_checksum_is_not_opened(server, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("the archive was opened"))
    url = server.add("/all.zip", b"PK\x03\x04 whatever")
    with pytest.raises(DataError, match="its checksum is wrong"):
        fetch(packed(url, archive="zip", names={"a": b"a"}, checksum=digest(b"other")), tmp_path, patience=HURRY)


def test_a_listed_sample_is_kept_unless_the_official_file_is_forced(server, tmp_path):
    url = server.add("/up.bin", CONTENT)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "up.bin").write_bytes(b"sample")
    (tmp_path / "SHA256SUMS").write_text(f"{digest(b'sample')[7:]}  ./made/up.bin\n")
    fetch(plain(url), tmp_path, patience=HURRY)
    assert arrived(tmp_path) == b"sample"
    fetch(plain(url), tmp_path, patience=HURRY, force=True)
    assert arrived(tmp_path) == CONTENT


def test_digits_need_no_download(tmp_path):
    assert fetch(SOURCES["digits"], tmp_path) == []
    assert not list(tmp_path.iterdir())
