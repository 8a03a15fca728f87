"""Files that are written as a whole, whatever is at their path."""

import errno
import os
import stat
import zipfile
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.plots.subjects import normal_check
from vicheck.files.durable import is_temporary, whole_file

NULL = os.makedev(1, 3)
"""What /dev/null is, and a device made for a test can be."""


def write(path, content=b"new"):
    with whole_file(path) as file:
        file.write(content)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, NULL)
        path.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"a device cannot be made here: {error.strerror}")
    return path


@pytest.fixture
def pipe(tmp_path):
    """A pipe, and its other end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, end
    os.close(end)


def test_a_device_stays_a_device(device):
    write(device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert device.stat().st_rdev == NULL
    assert [each.name for each in device.parent.iterdir()] == ["null"]


def test_a_report_to_a_device_leaves_the_device(device):
    assert normal_check().report(device) == device
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_pipe_gets_all_of_it_at_the_end(pipe):
    path, end = pipe
    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:  # which seeks
        archive.writestr("a", "text")
        assert os.read(end, 10_000) == b""
    found = os.read(end, 10_000)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert found.startswith(b"PK")
    assert b"text" in found


def test_a_pipe_gets_nothing_of_what_fails(pipe):
    path, end = pipe
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"half" * (1 // 0))
    assert os.read(end, 10_000) == b""


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_is_followed_and_stays(tmp_path, there):
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "file"
    (tmp_path / "second").symlink_to("far/file")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    if there:
        target.write_bytes(b"old")
        target.chmod(0o640)
    write(tmp_path / "first")
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"
    assert not there or mode_of(target) == 0o640
    assert [each.name for each in target.parent.iterdir()] == ["file"]


def test_what_a_link_leads_to_stays_when_writing_fails(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "link") as file:
        file.write(bytes(1 // 0))
    assert (tmp_path / "link").read_bytes() == b"old"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "link"}


def test_a_link_into_a_missing_directory_is_an_error(tmp_path):
    (tmp_path / "link").symlink_to("nowhere/file")
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "link")
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


def test_links_in_a_circle_are_an_error_before_anything_is_done(tmp_path):
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links") as error, whole_file(tmp_path / "one"):
        pytest.fail("nothing can be written")
    assert error.value.errno == errno.ELOOP
    assert {each.name for each in tmp_path.iterdir()} == {"one", "other"}


def test_a_directory_is_an_error_before_anything_is_done(tmp_path):
    with pytest.raises(IsADirectoryError), whole_file(tmp_path):
        pytest.fail("nothing can be written")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o400])
def test_the_mode_of_the_old_file_is_kept(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with umask(0o027), whole_file(path) as file:
        file.write(b"new")
        (temporary,) = (each for each in tmp_path.iterdir() if each != path)
        assert mode_of(temporary) == mode  # what is private is so from the start
    assert mode_of(path) == mode
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_that_the_user_wants_for_new_files(tmp_path, mask, mode):
    with umask(mask):
        write(tmp_path / "file")
    assert mode_of(tmp_path / "file") == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_the_old_file_is_kept(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_other_hard_links_keep_the_old_content(tmp_path):
    (tmp_path / "one").write_bytes(b"old")
    os.link(tmp_path / "one", tmp_path / "other")
    write(tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"new"
    assert (tmp_path / "other").read_bytes() == b"old"


def test_without_overwriting_anything_that_is_there_stays(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError), whole_file(tmp_path / "link", overwrite=False) as file:
        file.write(b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


@contextmanager
def nobody():
    """Be a user to whom the modes of files matter: root may do everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_directory_that_may_not_be_written_to_is_an_error_and_the_file_stays():
    with TemporaryDirectory() as name:  # pytest's own are closed to nobody
        path = Path(name) / "file"
        path.write_bytes(b"old")
        path.chmod(0o666)
        path.parent.chmod(0o555)
        with pytest.raises(PermissionError) as error, nobody():
            write(path)
        path.parent.chmod(0o755)
        assert is_temporary(Path(error.value.filename))
        assert path.read_bytes() == b"old"
        assert [each.name for each in path.parent.iterdir()] == ["file"]
