"""What every kind of result must hold to when it is saved."""

import pytest


def assert_a_failed_save_leaves_the_old_file(path, old, new, monkeypatch):
    """Save a result, and then another over it on a disk that is full."""
    old.save(path)
    before = path.read_bytes()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vicheck.files.durable.os.fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        new.save(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
