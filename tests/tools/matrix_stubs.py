"""Libraries that do nothing, in place of the CUDA that a build of torch asks for.

Most wheels of torch are built for CUDA and do not even import without gigabytes of its
libraries. The tests of the matrix run on the CPU and never call them, so that a C
compiler and binutils suffice to make stand-ins with the names that torch looks up.
"""

import re
import subprocess
import sys
from pathlib import Path

LIBRARY = re.compile(r"lib(cu|nv|nccl)[^/]*\.so\.\d+$")
NAME = re.compile(r"_*(cu|nccl|nv)\w*$")


def lines(*command: str | Path) -> list[str]:
    """The output of a command."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def wanted(folder: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The versions of every library that is missing in `folder`, and their functions.

    Functions without a version may be of any library; they are those of version "".
    """
    versions: dict[str, set[str]] = {}
    functions: dict[str, set[str]] = {"": set()}
    for file in folder.glob("*.so*"):
        library = ""
        for line in lines("readelf", "-W", "-d", "-V", file):
            if name := re.search(r"NEEDED.*\[(.*)\]|File: (\S+)", line):
                library = name[1] or name[2]
                if LIBRARY.match(library) and not (folder / library).exists():
                    versions.setdefault(library, set())
            elif (name := re.search(r"Name: (\S+)", line)) and library in versions:
                versions[library].add(name[1])
        for line in lines("nm", "-D", "--undefined-only", file):
            symbol, _, version = line.split()[-1].partition("@")
            if version or NAME.match(symbol):
                functions.setdefault(version, set()).add(symbol)
    return versions, functions


def make_stubs(folder: Path) -> None:
    """Puts a stand-in for every CUDA library beside torch's own in `folder`."""
    missing, functions = wanted(folder)
    for library, versions in missing.items():
        own = {version: functions.get(version, set()) for version in versions}
        own = own or {library: functions[""]}
        source, script = folder / "stub.c", folder / "stub.map"
        with source.open("w") as code, script.open("w") as nodes:
            for version, names in own.items():
                code.writelines(f"int {name}(void) {{ return 0; }}\n" for name in names)
                print(version, "{", *(f"{name};" for name in names), "};", file=nodes)
        flags = [f"-Wl,-soname,{library}", f"-Wl,--version-script={script}"]
        command = ["cc", "-shared", "-fPIC", "-w", *flags, "-o", str(folder / library)]
        subprocess.run([*command, str(source)], check=True)
        source.unlink()
        script.unlink()


if __name__ == "__main__":
    make_stubs(Path(sys.argv[1]))
