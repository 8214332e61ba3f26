"""Machine code on disk: what is damaged is compiled anew."""

import contextlib
import os
import pathlib
import pickle
import random
import stat
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from unittest import mock

import pytest

numba = pytest.importorskip("numba")
kernel_cache = import_module("gttf_sampler._backends.numba.rng")
folders = import_module("gttf_sampler._backends.cache")

KERNEL = """
import numba
def twice(x):
    return 2 * x
twice = numba.njit(twice)
"""


@contextlib.contextmanager
def kept_in(home: pathlib.Path):
    """Kernels that are defined meanwhile are kept in `home`, or nowhere."""
    nowhere = mock.patch.object(folders.tempfile, "gettempdir", side_effect=OSError)
    with mock.patch.dict(os.environ, NUMBA_CACHE_DIR=str(home)), nowhere:
        forget_folders()
        yield
    forget_folders()


def forget_folders():
    """The next call looks for folders of kernels anew."""
    folders.kernel_folder.cache_clear()
    folders.kernel_folders.cache_clear()


def run(folder: pathlib.Path, stamp: str = "1") -> str:
    """The result of a kernel defined in a process, and the number of cached ones.

    A module that is loaded anew has a dispatcher of its own, as in another process.
    """
    script = folder / "kernel.py"
    if not script.exists():  # numba looks at when a file was written
        script.write_text(KERNEL)
    spec = spec_from_file_location("kernel", script)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    with kept_in(folder / "cache"):
        # no folder of the user's own, as in `compiled`
        with contextlib.suppress(RuntimeError):
            kernel_cache.guard(module.twice, stamp)
        result = module.twice(21)
    return f"{result} {sum(module.twice.stats.cache_hits.values())}"


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    at = random.Random(0).randrange(len(data))
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


def flip_last(data: bytes) -> bytes:
    """Leaves all that numba reads; the checksum alone can tell."""
    return data[:-1] + bytes([data[-1] ^ 255])


@pytest.mark.parametrize("damage", [cut, flip, flip_last, lambda data: b""])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_kernel_is_compiled_anew(tmp_path, damage, ending):
    assert run(tmp_path) == "42 0"
    assert run(tmp_path) == "42 1"
    (file,) = (tmp_path / "cache").rglob(f"*.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    assert run(tmp_path) == "42 0"
    assert run(tmp_path) == "42 1"  # and kept


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes")
def test_folder_is_the_users_own(tmp_path):
    assert run(tmp_path) == "42 0"
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.name == f"gttf-{os.geteuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert run(tmp_path) == "42 1"
    folder.chmod(0o777)  # whoever could write there may have done so
    assert run(tmp_path) == "42 0"
    assert run(tmp_path) == "42 0"
    folder.chmod(0o700)
    (tmp_path / "cache").chmod(0o777)  # others could put another folder in its place
    assert run(tmp_path) == "42 0"
    (tmp_path / "cache").chmod(0o1777)  # as of /tmp
    assert run(tmp_path) == "42 1"


@pytest.mark.skipif(os.name != "posix", reason="folders have no owners")
def test_folder_of_another_user_is_not_read(tmp_path, monkeypatch):
    folder = folders.private_folder(tmp_path)
    assert folders.is_safe(folder)
    lstat = os.lstat

    def of_another(path):
        found = list(lstat(path))
        found[stat.ST_UID] += 1
        return os.stat_result(found)

    monkeypatch.setattr(folders.os, "lstat", of_another)
    assert not folders.is_safe(folder)
    assert folders.private_folder(tmp_path) is None


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes")
def test_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / f"gttf-{os.geteuid()}").symlink_to(tmp_path / "other")
    assert folders.private_folder(tmp_path) is None


FOR_ALL = """
import os, pathlib, sys, tempfile
sys.path.insert(0, sys.argv[1])
os.umask(0o077)
import kernel
from gttf_sampler._backends import cache
from gttf_sampler._backends.numba import rng

image = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
own = image / "gttf-0"

def twice():
    made = kernel.numba.njit(kernel.twice.py_func)
    rng.guard(made, "1")
    assert made(21) == 42
    return sum(made.stats.cache_hits.values())

assert twice() == 0
cache.mark_compiled("gather")
image.chmod(0o555)
cache.kernel_folder.cache_clear(), cache.kernel_folders.cache_clear()
os.setgid(65534), os.setuid(65534)
written, *read = cache.kernel_folders()
assert written.parent.parent == pathlib.Path(tempfile.gettempdir()), written
assert [folder.parent for folder in read] == [own], read
assert cache.is_compiled("gather") and cache.has_kernels()
assert twice() == 1
assert not list(written.iterdir())
"""


@pytest.mark.process
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root is two users"
)
@pytest.mark.parametrize("changed", ["", "folder", "file"])
def test_kernels_that_root_has_compiled_are_read_by_all(changed):
    """As those of an image; unless others could have written them."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        for name, mode in (("image", 0o755), ("temporary", 0o1777)):
            os.mkdir(f"{place}/{name}")
            os.chmod(f"{place}/{name}", mode)
        pathlib.Path(place, "kernel.py").write_text(KERNEL)
        os.chmod(f"{place}/kernel.py", 0o644)
        code = FOR_ALL
        if changed == "folder":
            code = code.replace("image.chmod(0o555)", "own.chmod(0o777)")
            code = code.replace("== [own]", "== []").split("assert cache.is_comp")[0]
            code += "assert twice() == 0 and twice() == 1"
        elif changed == "file":
            change = "for file in own.rglob('*.nb*'): file.chmod(0o666)"
            code = code.replace("image.chmod(0o555)", change)
            code = code.split("assert twice() == 1")[0]
            code += "assert twice() == 0 and twice() == 1"
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{place}/image"}
        environment |= {"TMPDIR": f"{place}/temporary"}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
        done = subprocess.run(
            [sys.executable, "-c", code, place],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_disk_that_is_full_does_not_stop_a_kernel(tmp_path, monkeypatch):
    def full(*about):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel_cache.CheckedCacheFile, "save", full)
    assert run(tmp_path) == "42 0"


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_index_that_others_may_have_written_is_not_unpickled(tmp_path, mode):
    """Neither to load a kernel nor before one is added."""
    folder = folders.private_folder(tmp_path)
    (folder / "kernels").mkdir()
    made = kernel_cache.CheckedCacheFile(str(folder / "kernels"), "name", "stamp")
    planted = pickle.dumps(Planted(tmp_path / "ran"))
    pathlib.Path(made._index_path).write_bytes(planted)
    folder.chmod(mode)
    made.load("key")
    made.save("key", 1)
    assert (tmp_path / "ran").exists() == (mode == 0o700)  # his own, he may run


def test_home_that_cannot_be_written_has_no_folder(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(folders.Path, "mkdir", refuse)
    assert folders.private_folder(tmp_path) is None
    (tmp_path / "file").write_text("")
    monkeypatch.undo()
    assert folders.private_folder(tmp_path / "file") is None


def test_kernels_run_where_none_can_be_kept(tmp_path):
    (tmp_path / "cache").write_text("no folder")
    from gttf_sampler._backends.numba.rng import compiled

    with kept_in(tmp_path / "cache"):
        twice = compiled(lambda x: 2 * x)
        assert twice(21) == 42
    assert twice._cache.cache_path is None


def test_kernel_is_compiled_anew_with_another_stamp(tmp_path):
    assert run(tmp_path) == "42 0"
    assert run(tmp_path, "2") == "42 0"
    assert run(tmp_path, "2") == "42 1"


def test_stamp_changes_with_any_file(tmp_path):
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_text("1")
    before = folders.stamp_of(files)
    files[1].write_text("2")
    assert folders.stamp_of(files) != before


@pytest.mark.process
@pytest.mark.compile
def test_kernels_say_once_that_they_are_compiled(tmp_path):
    code = (
        "import torch\n"
        "from gttf_sampler._backends import ops\n"
        "for _ in range(2):\n"
        "    ops.draw_uniform(torch.zeros(1).long(), torch.ones(1).long(), 1, True)\n"
    )
    own = dict.fromkeys(("NUMBA_CACHE_DIR", "TMPDIR"), str(tmp_path))
    environment = {**os.environ, **own}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    environment["NUMBA_OPT"] = "0"  # compiles in less time
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stderr.count("compiling the CPU kernels"))
    assert told == [1, 0]
