"""Compiled code is kept for the next process, and never taken for anything else."""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import vicheck
from vicheck.errors import CacheError
from vicheck.runtime import compiling, kept_code
from vicheck.runtime.cache import private_directory
from vicheck.runtime.compiling import compiled
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.kept_code import key_of
from vicheck.runtime.portable import portable_digest

SHIFT = 1.0


@pytest.fixture
def directory(monkeypatch, tmp_path):
    """Where code is kept: JAX's own cache, which the other tests use, is off."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("VICHECK_CACHE", raising=False)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    next_process(monkeypatch)
    yield tmp_path / "vicheck" / "compiled"
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def next_process(monkeypatch):
    """Forget all compiled code of this process."""
    monkeypatch.setattr(compiling, "_CODE", compiling._CodeCache())


def nothing_compiled(monkeypatch):
    def fail(static):
        pytest.fail(f"{static.function.__name__} is compiled")

    next_process(monkeypatch)
    monkeypatch.setattr(compiling, "_jitted", fail)


def density(z):
    return -jnp.sum((z - SHIFT) ** 2) / 2


def log_density():
    return vicheck.from_log_density(density, jnp.zeros(2)).log_density([0.5, 3.0])


def entries(directory):
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_the_next_process_compiles_nothing(directory, monkeypatch):
    first = log_density()
    assert len(entries(directory)) == 1
    nothing_compiled(monkeypatch)
    assert log_density() == first == -2.125


def test_a_model_that_has_changed_in_the_meantime_is_another(directory, monkeypatch):
    assert log_density() == -2.125
    next_process(monkeypatch)
    monkeypatch.setitem(globals(), "SHIFT", 3.0)
    assert log_density() == -3.125
    assert len(entries(directory)) == 2


def test_nothing_is_kept_or_used_when_it_is_switched_off(directory, monkeypatch):
    log_density()
    next_process(monkeypatch)
    monkeypatch.setenv("VICHECK_CACHE", "off")
    monkeypatch.setattr(kept_code, "_read", lambda path: pytest.fail("it is read"))
    monkeypatch.setitem(globals(), "SHIFT", 3.0)
    assert log_density() == -3.125
    assert len(entries(directory)) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [("OFF", "VICHECK_CACHE is off"), ("/tmp", "must be on or off, got '/tmp'")],
)
def test_what_the_switch_says_is_told(monkeypatch, tmp_path, value, reason):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("VICHECK_CACHE", value)
    with pytest.raises(CacheError, match=reason):
        private_directory("compiled")
    assert not list(tmp_path.iterdir())


def test_nothing_is_kept_where_others_can_write(directory, monkeypatch):
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    assert log_density() == -2.125
    assert entries(directory) == []


def test_nothing_is_kept_where_jax_keeps_it(directory, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    assert log_density() == -2.125
    assert entries(directory) == []


def spoil(path, how):
    content = path.read_bytes()
    if how == "cut off":
        path.write_bytes(content[:-10])
    elif how == "one bit changed":
        path.write_bytes(content[:-10] + bytes([content[-10] ^ 1]) + content[-9:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "not ours":
        path.write_bytes(b"\x80\x04N.")
    elif how == "whole, but no code":
        path.write_bytes(kept_code._MAGIC + kept_code._digest_of(b"\x80\x04N.") + b"\x80\x04N.")
    else:
        path.chmod(0o666)


@pytest.mark.parametrize(
    "how",
    ["cut off", "one bit changed", "empty", "not ours", "whole, but no code", "others can write"],
)
def test_an_entry_that_cannot_be_used_is_replaced(directory, monkeypatch, tmp_path, how):
    log_density()
    (path,) = directory.iterdir()
    spoil(path, how)
    os.link(path, tmp_path / "old")
    next_process(monkeypatch)
    assert log_density() == -2.125
    assert entries(directory) == [path.name]
    assert not path.samefile(tmp_path / "old")
    nothing_compiled(monkeypatch)
    assert log_density() == -2.125


def test_code_that_loads_but_does_not_run_is_compiled_after_all(directory, monkeypatch, tmp_path):
    log_density()
    (path,) = directory.iterdir()
    os.link(path, tmp_path / "old")
    next_process(monkeypatch)
    load = kept_code.load_kept

    def load_without_its_functions(key, *args):
        def broken(*given):
            raise jax.errors.JaxRuntimeError("NOT_FOUND: Function fusion.7 not found")

        return broken if load(key, *args) else None

    monkeypatch.setattr(compiling, "load_kept", load_without_its_functions)
    assert log_density() == -2.125
    assert not path.samefile(tmp_path / "old")


def test_a_disk_that_cannot_be_written_is_no_error(directory, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_code, "whole_file", full)
    assert log_density() == -2.125
    assert entries(directory) == []


def test_code_of_other_libraries_is_never_kept(directory):
    def host(z):
        return np.asarray(-z.sum(), z.dtype)

    def opaque(z):
        shape = jax.ShapeDtypeStruct((), z.dtype)
        return jax.pure_callback(host, shape, z, vmap_method="sequential")

    assert vicheck.from_log_density(opaque, jnp.zeros(2)).log_density([1.0, 2.0]) == -3.0
    assert entries(directory) == []


def test_calls_that_only_the_translated_code_shows_are_not_kept_either(directory, monkeypatch):
    monkeypatch.setattr(kept_code, "_calls_of", lambda lowered: {"lapack_dpotrf_ffi", "other"})
    log_density()
    assert entries(directory) == []


FACTOR = 2.0


@compiled("log_density")
def scaled(program, z, data):
    return {"scaled": FACTOR * program.log_density(z, data)}


def test_code_of_the_users_is_known_by_its_operations(directory, monkeypatch):
    """Its name alone says nothing: it may be another function tomorrow."""

    def value():
        model = vicheck.from_log_density(density, jnp.zeros(2))
        with double_precision():
            return float(scaled(model.program, np.array([0.5, 3.0]), {})["scaled"])

    assert value() == -4.25
    next_process(monkeypatch)
    monkeypatch.setattr(kept_code, "keep", lambda *args: pytest.fail("it is compiled"))
    assert value() == -4.25
    monkeypatch.undo()
    next_process(monkeypatch)
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert value() == -8.5


@jax.custom_jvp
def kinked(x):
    return jnp.abs(x)


@kinked.defjvp
def _kinked_jvp(primals, tangents):
    return kinked(primals[0]), SHIFT * tangents[0]


def test_a_differentiation_rule_of_the_users_has_no_name_in_other_processes():
    model = vicheck.from_log_density(lambda z: -jnp.sum(kinked(z)), jnp.zeros(2))
    plain = vicheck.from_log_density(lambda z: -jnp.sum(jnp.abs(z)), jnp.zeros(2))
    with double_precision():
        assert portable_digest(model.program.computation("log_density", {})) is None
        assert portable_digest(plain.program.computation("log_density", {})) is not None


@pytest.mark.parametrize("what", ["processor", "sources", "versions", "flags", "settings"])
def test_a_key_is_that_of_one_machine_and_one_installation(monkeypatch, what):
    before = key_of("a piece of code")
    assert key_of("a piece of code") == before != key_of("another")
    if what == "processor":
        monkeypatch.setattr(kept_code, "digest_of_processor", lambda: "another")
    elif what == "sources":
        monkeypatch.setattr(kept_code, "digest_of_sources", lambda: "another")
    elif what == "versions":
        monkeypatch.setattr(kept_code, "version", lambda name: "0.0.1")
    elif what == "flags":
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=SSE4_2")
    else:
        jax.config.update("jax_optimization_level", "O1")
    kept_code._installation.cache_clear()
    try:
        assert key_of("a piece of code") not in ("", before)
    finally:
        monkeypatch.undo()
        jax.config.update("jax_optimization_level", "UNKNOWN")
        kept_code._installation.cache_clear()
    with jax.enable_x64(True):
        assert key_of("a piece of code") == before


def test_what_was_not_used_for_longest_is_removed(directory, monkeypatch):
    log_density()
    (used,) = directory.iterdir()
    size = used.stat().st_size
    for name, age in (("old", 3e5), ("older", 4e5), (f".{'0' * 16}.tmp", 5e5)):
        (directory / name).write_bytes(bytes(size))
        os.utime(directory / name, (time.time() - age,) * 2)
    fresh = directory / f".{'1' * 16}.tmp"
    fresh.touch()
    os.utime(used, (time.time() - 6e5,) * 2)
    next_process(monkeypatch)
    log_density()  # which is a use
    monkeypatch.setattr(kept_code, "MOST_BYTES", 3.5 * size)
    monkeypatch.setitem(globals(), "SHIFT", 3.0)
    next_process(monkeypatch)
    log_density()
    left = set(entries(directory))
    assert {used.name, fresh.name, "old"} < left
    assert len(left) == 4
    assert "older" not in left


def test_an_entry_that_would_fill_the_cache_is_not_kept(directory, monkeypatch):
    monkeypatch.setattr(kept_code, "_MOST_OF_ONE", 100)
    log_density()
    assert entries(directory) == []


PROGRAM = """
import sys
import jax
import numpy as np
import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
from vicheck.runtime import compiling

if sys.argv[1] == "found":
    def fail(static):
        sys.exit(f"{static.function.__name__} is compiled")
    compiling._jitted = fail
settings = dict(jax.config.values)
model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
fit = vicheck.fit(model, family="full_rank")  # whose code calls LAPACK
check = vicheck.check(fit, num_draws=1000)
assert dict(jax.config.values) == settings
print(fit.mean.tobytes().hex(), repr(check.khat), len(check.moments))
"""


def start(tmp_path, how, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    env |= {"XDG_CACHE_HOME": str(tmp_path)} | environment
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


@pytest.mark.slow
def test_processes_share_what_one_has_compiled_to_the_same_bits(tmp_path):
    first, second = [start(tmp_path, "compiled") for _ in range(2)]  # at the same time
    assert answer(first) == answer(second) == answer(start(tmp_path, "found"))
    (directory,) = (tmp_path / "vicheck").iterdir()
    assert not [name for name in entries(directory) if name.endswith(".tmp")]


@pytest.mark.slow
def test_several_devices_do_not_matter(tmp_path):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    assert answer(start(tmp_path, "compiled", **flags)) == answer(start(tmp_path, "found", **flags))
