"""What is brought along to a machine where Lockstep cannot be built: programs, tests and their shared libraries."""
import atexit
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import builds
from run import say

from . import ROOT
from .tests import PROGRAMS

BUILD = ROOT / "build-gpu"
ARCHIVE = "lockstep.tar.xz"
# The C library's, and CUDA's, which come from the machine.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s)\.so|"
                    r"lib(cuda|cudart|cublas|cublasLt|cudnn|nvrtc|nccl)\.so)")


def build():
    builds.configure(BUILD, "-Dcuda=enabled", "-Dnccl=enabled")
    builds.build(BUILD)


def files(built):
    found = [built / "lockstep", built / "liblockstep.so.0", built / "bench/images", built / "bench/roofline"]
    return found + sorted(built.rglob("lockstep-cuda*.so")) + [built / "tests" / name for name in PROGRAMS]


def libraries(path):
    """Those that the system's linker finds here and a bare machine may lack."""
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM.match(match[1]) and not match[1].startswith("liblockstep"):
            yield Path(match[2])


def carry(path, target):
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)


def prepare(folder, built=None):
    """An archive: the build's places, and the libraries side by side in lib. Without a finished build it makes one."""
    if not built:
        build()
    built = built or BUILD
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for path in files(built):
            carry(path, Path(place) / path.relative_to(built))
            for library in libraries(path):
                carry(library, Path(place) / "lib" / library.name)
        with tarfile.open(folder / ARCHIVE, "w:xz") as archive:
            archive.add(place, ".")
    say(f"gpu-check: {folder / ARCHIVE} is ready ({(folder / ARCHIVE).stat().st_size / 1e6:.0f} MB)")


def unpack(folder):
    place = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    atexit.register(shutil.rmtree, place, True)
    with tarfile.open(folder / ARCHIVE) as archive:
        archive.extractall(place)
    return place
