"""Digests of what traced functions compute: functions with equal digests compute the same.

Source code is not enough, because what a function computes may depend on globals, closures and
attributes outside it. The operations that JAX traces, with their constants, include all of these.
"""

from __future__ import annotations

import hashlib
import re
import site
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

__all__ = ["LIBRARIES", "Computation", "add_array", "is_installed", "text_of"]

LIBRARIES = ("vicheck", "jax", "jaxlib", "numpy", "numpyro", "equinox", "optax")
"""Packages whose code is known by their versions; that of vicheck by its sources."""

_CALLBACKS = ("callback", "ffi_call")
"""Primitives with these names run code that JAX cannot see."""
_RULES = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")
"""Parameters that hold differentiation rules, which only affect gradients."""
_MESHES = (jax.sharding.Mesh, jax.sharding.AbstractMesh)
"""Parameters that can be called, as decorators, but hold no code."""
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
"""Types whose repr says all there is to know."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_IGNORED = ("out_trees", "debug_info")
"""Parameters that differ from trace to trace without affecting what is computed."""


@dataclass(frozen=True)
class Computation:
    """What a traced function computes.

    Attributes
    ----------
    digest
        Equal for functions that do the same operations with the same constants.
    opaque
        Whether it calls code that JAX cannot see, so that functions with equal digests may still
        differ.
    own_rules
        Whether some operations have user-defined derivatives, which only gradients show.
    known_rules
        Whether all derivatives that only gradients show are of `LIBRARIES`.
    """

    digest: bytes
    opaque: bool
    own_rules: bool
    known_rules: bool = True

    @classmethod
    def of(cls, traced: Any) -> Computation:
        """Return what a closed jaxpr, as `jax.make_jaxpr` returns it, computes."""
        reader = _Reader()
        reader.read_closed(traced)
        return cls(reader.digest.digest(), reader.opaque, reader.own_rules, reader.known_rules)


class _Reader:
    """Reads the operations of a jaxpr and of the jaxprs inside it into one digest.

    Each call of the user's does so, so it is made to be fast: a model has a hundred operations.
    """

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self.opaque = self.own_rules = False
        self.known_rules = True
        self._read: dict[int, tuple[Any, int]] = {}

    def read_closed(self, closed: Any) -> None:
        # The same inner function is often called many times; reading it once is enough.
        known = self._read.get(id(closed))
        if known is not None:
            self._add(["again", str(known[1])])
            return
        self._read[id(closed)] = (closed, len(self._read))
        for constant in closed.consts:
            add_array(self.digest, constant)
        self._read_open(closed.jaxpr)

    def _read_open(self, jaxpr: Any) -> None:
        """Read what each operation is, what it takes, and the types of what it returns."""
        numbers: dict[Any, str] = {}
        words: list[str] = []

        def define(variables: Any) -> None:
            for variable in variables:
                numbers[variable] = str(len(numbers))
                words.append(_text_of_type(variable.aval))

        def use(atoms: Any) -> None:
            for atom in atoms:
                if isinstance(atom, core.Literal):
                    words.append(_text_of_type(atom.aval))
                    words.append(_text_of_number(atom.val))
                else:
                    words.append(numbers[atom])

        define(jaxpr.constvars)
        define(jaxpr.invars)
        for equation in jaxpr.eqns:
            name = equation.primitive.name
            words.append(name)
            self.opaque |= any(part in name for part in _CALLBACKS)
            use(equation.invars)
            params = equation.params
            for key in sorted(params):
                value = params[key]
                words.append(key)
                if type(value) in _PLAIN:
                    words.append(repr(value))
                else:
                    self._add(words)
                    words.clear()
                    self._read_parameter(key, value)
            words.append("returns")
            define(equation.outvars)
        words.append("all")
        use(jaxpr.outvars)
        self._add(words)

    def _read_parameter(self, key: str, value: Any) -> None:
        if type(value) in _PLAIN:
            self._add([repr(value)])
        elif key in _RULES:
            self._read_rule(value)
        elif key in _IGNORED:
            return
        elif isinstance(value, core.ClosedJaxpr):
            self.read_closed(value)
        elif isinstance(value, core.Jaxpr):
            self._read_open(value)
        elif isinstance(value, tuple | list):
            self._add([str(len(value))])
            for item in value:
                self._read_parameter("", item)
        elif isinstance(value, Mapping):
            for name in sorted(value, key=str):
                self._add([str(name)])
                self._read_parameter("", value[name])
        elif isinstance(value, np.ndarray | np.generic | jax.Array):
            add_array(self.digest, value)
        else:
            self._add([text_of(value)])
            self.opaque |= _is_opaque(value)

    def _read_rule(self, rule: Any) -> None:
        where = str(getattr(getattr(rule, "debug_info", None), "func_src_info", ""))
        name, _, place = where.rpartition(" at ")
        self._add([name])
        path = place.rpartition(":")[0]
        self.own_rules |= not is_installed(path)
        self.known_rules &= path.startswith(_known_roots())

    def _add(self, words: list[str]) -> None:
        self.digest.update("\x1f".join(words).encode("utf-8", "replace") + b"\n")


def _text_of_type(aval: Any) -> str:
    """Return the type of a variable as JAX prints it, which takes longer than to look it up."""
    try:
        key = (type(aval), aval.shape, aval.dtype, aval.weak_type)
    except AttributeError:  # no array
        return str(aval)
    text = _TYPES.get(key)
    if text is None:
        text = _TYPES[key] = str(aval)
        if len(_TYPES) > _MOST_TYPES:
            _TYPES.clear()
    return text


_TYPES: dict[Any, str] = {}
_MOST_TYPES = 4096


def _text_of_number(value: Any) -> str:
    """Return all bits of a literal, which may be a number of Python's or of NumPy's."""
    if type(value) in _PLAIN:
        return repr(value)
    array = np.asarray(value)
    return f"{array.dtype}{array.shape}{array.tobytes().hex()}"


def _is_opaque(value: Any) -> bool:
    """Whether there may be more to a parameter than its repr says: code, or just an address."""
    if isinstance(value, (type, *_MESHES)):
        return False
    return callable(value) or _ADDRESS.search(repr(value)) is not None


def text_of(value: Any) -> str:
    """Return the repr of a value without addresses, which differ from run to run."""
    return _ADDRESS.sub("", repr(value))


def add_array(digest: Any, array: Any) -> None:
    """Add the type, shape and values of an array, or of the key of a random number generator."""
    if jnp.issubdtype(getattr(array, "dtype", np.float64), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.ascontiguousarray(array)
    digest.update(f"{array.dtype}{array.shape}".encode())
    digest.update(array.tobytes())


def is_installed(path: str) -> bool:
    """Whether a source file belongs to Python or to an installed package, not to the user."""
    return path.startswith(("<frozen", *_roots()))


@lru_cache(maxsize=1)
def _roots() -> tuple[str, ...]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple(f"{place}/" for place in places)


@lru_cache(maxsize=1)
def _known_roots() -> tuple[str, ...]:
    specs = [find_spec(name) for name in LIBRARIES]
    return tuple(f"{Path(spec.origin).parent}/" for spec in specs if spec and spec.origin)
