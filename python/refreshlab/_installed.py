"""Where the parts of the package lie."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from .errors import Failure

package = Path(__file__).parent
program = package / "bin" / "refreshlab"


def assets() -> str:
    """The folder of the bundled pair, prompts and fonts."""
    return os.environ.get("REFRESHLAB_ASSETS") or str(package / "assets")


def libraries() -> list[Path]:
    """Folders of libtorch and of the CUDA runtime that it comes with, for this interpreter. Nothing is loaded."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise Failure("loading the engine: torch is not installed; pip install 'torch==2.11.*'", "loading the engine", "torch",
                      "is not installed", "pip install 'torch==2.11.*'")
    torch = Path(found.origin).parent
    return [torch / "lib", torch.parent / "nvidia" / "cu13" / "lib"]


def finds_libtorch() -> bool:
    """The wheel looks for libtorch beside itself; pip may have put it into another site-packages."""
    return (package.parent / "torch" / "lib").exists()


def environment() -> dict[str, str]:
    """Environment for the program, with which it finds libtorch wherever that is."""
    all_ = dict(os.environ)
    if not finds_libtorch() and importlib.util.find_spec("torch") is not None:
        known = all_.get("LD_LIBRARY_PATH")
        all_["LD_LIBRARY_PATH"] = os.pathsep.join([*map(str, libraries()), *([known] if known else [])])
    return all_


def require_system_libraries() -> None:
    """Raises Failure where one is missing that the program takes from the system, before the linker says it in its own words."""
    for library in ("libglib-2.0.so.0", "libgobject-2.0.so.0", "libX11.so.6", "libXext.so.6", "libXrender.so.1"):
        try:
            ctypes.CDLL(library)
        except OSError:
            hint = "on Debian: apt install libglib2.0-0 libx11-6 libxext6 libxrender1 libegl1 libgl1 libgl1-mesa-dri"
            raise Failure(f"starting the program: {library} is not installed; {hint}", "starting the program", library, "is not installed",
                          hint) from None


def main() -> None:
    """The command ``refreshlab``: becomes the program."""
    try:
        require_system_libraries()
    except Failure as failure:
        sys.exit(f"refreshlab: {failure}")
    os.execve(program, [str(program), *sys.argv[1:]], environment())
