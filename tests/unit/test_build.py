"""The one-file build: repeatable, started in every way, and deaf to the folder it is started in.

The file under test holds a small stand-in for odek, so that these tests know exactly what it imports.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import lzma
import marshal
import os
import random
import re
import runpy
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from support.load_module import load_recipe
from support.odek_process import program_kind
from support.recordings import write_recording

ROOT = Path(__file__).resolve().parents[2]
ZIPAPP = ROOT / "build" / "zipapp.py"
PYTHON = os.path.realpath(sys.executable)

STAND_IN = {
    "odek/__init__.py": '"""A stand-in for odek."""\n',
    "odek/cli/__init__.py": "",
    "odek/cli/main.py": """
import sys

def start(argv):
    sys.exit(main(argv))

def main(argv):
    import json
    if argv == ["compiled"]:
        texts = []
        sys.addaudithook(lambda event, values: texts.append(str(values[1])) if event == "compile" else None)
        import odek.facts, odek.later
        print(json.dumps([text for text in texts if text.startswith("odek/")]))
        return 0
    import odek.facts
    if argv == ["later"]:
        print("ready", flush=True)
        sys.stdin.readline()
        import odek.later
        print(odek.later.WORD)
        return 0
    if argv == ["parts"]:
        kept = [[name.rpartition(".")[2] for name, _ in sys.meta_path[0].parts]]
        for name in ("odek.agent.loop", "odek.app.sandbox"):
            __import__(name)
            kept.append([name.rpartition(".")[2] for name, _ in sys.meta_path[0].parts])
        print(json.dumps(kept))
        return 0
    if argv == ["records"]:
        texts = []
        sys.addaudithook(lambda event, values: texts.append(values[0]) if event == "compile" else None)
        import odek.records
        print(json.dumps([odek.records.behaviour(), [str(text) for text in texts if text is not None]]))
        return 0
    if argv == ["inspect"]:
        import dataclasses, odek.records
        late = type(dataclasses.inspect).__name__, "dis" in sys.modules
        made = dataclasses.make_dataclass("Made", [("a", int)])
        from inspect import signature
        import inspect
        annotations = inspect.get_annotations(made) == {"a": int}
        print(json.dumps([late, list(signature(made).parameters), annotations, "dis" in sys.modules]))
        return 0
    if argv == ["trimmed"]:
        import odek.trimmed
        print(json.dumps(odek.trimmed.look()))
        return 0
    if argv == ["threads"]:
        import importlib, threading
        found = []
        def look(number):
            found.append(importlib.import_module(f"odek.data.part{number}").NUMBER)
        threads = [threading.Thread(target=look, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sorted(found))
        return 0
    if argv == ["fail"]:
        import traceback
        try:
            raise ValueError("a reason")
        except ValueError:
            print(traceback.format_exc())
        return 0
    print(json.dumps(odek.facts.facts(argv)))
    return 7
""",
    # one of the modules that `odek run` imports: with all that it imports, it is compiled
    "odek/host.py": "import odek.facts, odek.records, odek.trimmed",
    "odek/agent/__init__.py": "",
    "odek/agent/loop.py": "def turn():\n    return 'of a run alone'\n",
    "odek/app/__init__.py": "",
    "odek/app/sandbox.py": "",
    "odek/facts.py": """
import os, pkgutil, sys
import subprocess, argparse, urllib.request
import odek.data

WORDS = {"b", "a", "c", "d"}

def known(word):
    return word in {"north", "south", "east", "west"}

def facts(argv):
    folder = os.path.dirname(odek.data.__file__)
    return {
        "argv": argv,
        "argv0": sys.argv[0],
        "version": "%d.%d" % sys.version_info[:2],
        "flags": [sys.flags.isolated, sys.flags.no_site, sys.flags.utf8_mode],
        "by_loader": odek.data.__spec__.loader.get_data(os.path.join(folder, "note.txt")).decode(),
        "by_pkgutil": pkgutil.get_data("odek.data", "note.txt").decode(),
        "pid": os.getpid(),
    }
""",
    "odek/records.py": """
from __future__ import annotations
import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar

@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    \'\'\'A place.\'\'\'
    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default=(), repr=False)

@dataclass(order=True)
class Mutable:
    \'\'\'A list.\'\'\'
    items: list[int] = field(default_factory=list)
    unit: ClassVar[str] = "m"

def attempt(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__

def behaviour():
    point = Point(x=1)
    return [
        repr(point), point == Point(x=1, y=2), point == Point(x=2), hash(point) == hash(Point(x=1)),
        repr(dataclasses.replace(point, x=3)), attempt(lambda: setattr(point, "x", 4)), attempt(lambda: Point(1)),
        attempt(Point), repr(Mutable()), Mutable() < Mutable([1]), Mutable().items is Mutable().items,
        [field.name for field in dataclasses.fields(Point)],
    ]
""".replace("\\'", "'"),
    "odek/trimmed.py": """'A module.'

class Documented:
    'A class.'

    def method(self, word: str) -> str:
        'A method.'
        return word

def look():
    'What is left.'
    function = Documented.method
    try:
        word: str = "on purpose"
        assert not word, word
    except AssertionError as error:
        line = max(error.__traceback__.tb_lineno or 0, 0)
        notes = {name: str(note) for name, note in function.__annotations__.items()}
        return [__doc__, function.__doc__, Documented.__doc__, notes, str(error), line]
""",
    **{f"odek/data/part{number}.py": f"NUMBER = {number}\n" + "#" * number for number in range(8)},
    "odek/later.py": 'WORD = "the code of the file that was started"\n',
    "odek/data/__init__.py": "",
    "odek/data/note.txt": "a note\n",
}


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return load_recipe("zipapp")


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("source"), STAND_IN)


@pytest.fixture(scope="module")
def built(builder: ModuleType, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in as one file, compiled for the Python of this test run."""
    content, _ = builder.build(source, [PYTHON], strict=True)
    path = tmp_path_factory.mktemp("built") / "odek"
    builder.write_executable(path, content)
    return path


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH that holds nothing but `python3`."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "python3").symlink_to(PYTHON)
    return folder


def start(
    *argv: str | Path, path: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={"PATH": str(path), **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def write_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def pretend_version(path: Path, version: str) -> Path:
    """Write an interpreter that takes itself for another version."""
    before = f"import sys; sys.version_info = ({version.replace('.', ', ')}); "
    # the launcher's argv is: -X utf8 -I -S -c CODE FILE OTHERS ARGUMENT…
    return write_script(path, f"code='{before}'$6; shift 6; exec '{PYTHON}' -X utf8 -I -S -c \"$code\" \"$@\"")


# --- the file itself


def test_builds_are_equal_wherever_and_however_they_are_made(tmp_path: Path) -> None:
    """R-91: byte for byte, whatever the folder, dates, umask, time zone, locale and hash seed."""

    def build(name: str, umask: str, env: Mapping[str, str], cwd: Path) -> bytes:
        folder = write_tree(tmp_path / name, STAND_IN)
        os.utime(folder / "odek" / "facts.py", (len(name) * 1e8, len(name) * 1e8))
        output = folder / "dist" / "odek"
        command = ["sh", "-c", f'umask {umask}; exec "$@"', "sh", PYTHON, "-B", ZIPAPP]
        options = ["--python", PYTHON, "--source", folder, "--output", output]
        subprocess.run([*command, *options], env=env, cwd=cwd, check=True, capture_output=True)
        assert output.stat().st_mode & 0o7777 == 0o755
        return output.read_bytes()

    one = build("one", "022", {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}, ROOT)
    other = build(
        "a folder with blanks", "077", {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}, tmp_path
    )
    assert one == other


def test_archive_is_sound_sorted_and_without_traces(builder: ModuleType, built: Path) -> None:
    archive = zipfile.ZipFile(io.BytesIO(built.read_bytes()))
    members = archive.infolist()
    assert archive.testzip() is None
    assert [member.filename for member in members] == sorted(
        [
            "__main__.py",
            "odekagain.py",
            "odekboot.py",
            "odekload.py",
            "odekslow.py",
            "data.gz",
            "source.gz",
            "source.lzma",
            f"compiled/{importlib.util.MAGIC_NUMBER.hex()}",
            f"compiled/{importlib.util.MAGIC_NUMBER.hex()}.base",
            "compiled/later",
            f"compiled/{importlib.util.MAGIC_NUMBER.hex()}.run",
            "compiled/texts",
            "compiled/texts.base",
        ]
    )
    assert {(member.date_time, member.external_attr >> 16, member.create_system) for member in members} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644, 3)
    }
    read = {}
    for name, unpack_member in (
        ("data.gz", gzip.decompress),
        ("source.gz", gzip.decompress),
        ("source.lzma", lzma.decompress),
    ):
        index, _, content = unpack_member(archive.read(name)).decode("ascii").partition("\n\n")
        sizes = {line.split(" ")[0]: int(line.split(" ")[1]) for line in index.split("\n")}
        modules = [file for file in sizes if file.endswith(".py")]
        assert (modules != []) == (name != "data.gz")
        assert list(sizes) == sorted(sizes, key=lambda file: (file.rpartition(".")[2], file))
        for file, size in sizes.items():
            read[file], content = content[:size], content[size:]
        assert content == ""
    assert read.pop("odek/built.json") == '{"file": "odek", "releases": ""}'
    assert read == {
        name: builder.strip_source(text) if name.endswith(".py") else text for name, text in STAND_IN.items()
    }


@pytest.mark.parametrize(
    ("source", "stripped"),
    [
        ('"""What\nit is."""\n\nfrom __future__ import annotations\n', "\n\n\nfrom __future__ import annotations\n"),
        ("A = '#'  # ä comment\n# another\nB = 1\n", "A = '#'\n\nB = 1\n"),
        ('def f():\n    """Do\n    nothing."""\n', "def f():\n 0\n\n"),
        ('def f():\n    """Return 1."""\n    return 1\n', "def f():\n\n return 1\n"),
        ('def f(): "nothing"\n', "def f(): 0\n"),
        ('class Color:\n    red: str\n    """of blood"""\n    ...\n', "class Color:\n red: str\n\n\n"),
        ('class Color:\n    """Red."""\n    red: str\n', 'class Color:\n "."\n red: str\n'),
        ('if True:\n    "nothing"\nelse:\n    x = f"#{1}"\n', 'if True:\n 0\nelse:\n x = f"#{1}"\n'),
        ("x = 1  # no line break", "x = 1"),
        ("if TYPE_CHECKING:\n    from x import Y\na: int = 1\n", "\n\na = 1\n"),
        ("def f():\n    a: int\n    self.a: dict[\n        str\n    ] = {}\n", "def f():\n a: int\n self.a = {}\n\n\n"),
        ("class A:\n    a: int = 1\n    def f():\n        b: int = 1\n", "class A:\n a: int = 1\n def f():\n  b = 1\n"),
        (
            "from x import (\n    A,\n    B as C,\n    D,\n)\ndef f(a: A) -> C: D\n",
            "from x import D\n\n\n\n\ndef f(a): D\n",
        ),
        ("from x import A, B\ndef f(a: A): A\n", "from x import A, B\ndef f(a): A\n"),  # B is for others
        ("from x import A\nimport y\ndef f(a: A, b: y.B): 0\n", "\nimport y\ndef f(a, b): 0\n"),
        ("class A:\n    a: Field\nfrom x import Field\n", "class A:\n a: Field\nfrom x import Field\n"),
        ("def f(a: A):\n    from x import A\n", "def f(a):\n from x import A\n"),
        ("if TYPE_CHECKING:\n    a\nelse:\n    b\n", "if TYPE_CHECKING:\n a\nelse:\n b\n"),
        (
            "def f(ä: Ö = 'ö', /, *b: dict[\n    str\n], c: int, **d: X) -> tuple[\n    int\n]: return lambda x: x\n",
            "def f(ä = 'ö', /, *b, c, **d): return lambda x: x\n\n\n\n\n",
        ),
        (
            "if x:\n    def f():\n        y(\n            1,\n        )\n    z\nelse:\n    if z:\n        a\nb\n",
            "if x:\n def f():\n  y(\n  1,\n  )\n z\nelse:\n if z:\n  a\nb\n",
        ),
        (
            'if x:\n    y = """\n    a\n    """ + f"""\n    {\n        z\n    }\n    """; a\n    b\n',
            'if x:\n y = """\n    a\n    """ + f"""\n    {\n        z\n    }\n    """; a\n b\n',
        ),
    ],
)
def test_sources_are_stripped_of_what_only_readers_need_line_for_line(
    builder: ModuleType, source: str, stripped: str
) -> None:
    assert builder.strip_source(source) == stripped


def test_source_whose_prose_shares_a_line_is_refused(builder: ModuleType) -> None:
    with pytest.raises(ValueError, match="means something else"):
        builder.strip_source('x = 1; "a text"; y = 2\n')


def test_build_is_refused_when_a_given_python_cannot_compile(builder: ModuleType, source: Path) -> None:
    with pytest.raises(builder.BuildError, match=r"/bin/false"):
        builder.build(source, ["/bin/false"], strict=True)


def test_build_goes_on_when_a_found_python_cannot_compile(
    builder: ModuleType, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, compiled = builder.build(source, [PYTHON, "/bin/false"], strict=False)
    assert [one.magic for one in compiled] == [importlib.util.MAGIC_NUMBER.hex()]
    assert "left out: /bin/false" in capsys.readouterr().err


CONVERSATIONS = {
    "run": ["run", "--session", "task"],
    "json": ["run", "--json", "task"],
}


@pytest.fixture(scope="module")
def compiled_ahead(builder: ModuleType) -> set[str]:
    package = builder.find_package(ROOT)
    compiled = builder.compile_package(PYTHON, package)
    written = compiled.base, compiled.run, compiled.later
    start, *parts = marshal.loads(compiled.start)[1], *(marshal.loads(part)[3] for part in written)
    assert sum(map(len, (start, *parts))) == len({name for part in (start, *parts) for name in part})
    return {name for part in (start, *parts) for name in part}


@pytest.mark.parametrize("words", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_what_a_conversation_imports_is_compiled_ahead(
    compiled_ahead: set[str], words: list[str], tmp_path: Path
) -> None:
    """R-91: nothing that `run` needs has to be compiled at their start; MCP servers, of which there is none here, need
    nothing (R-190)."""
    script = "import sys, odek.cli.main as m\ntry: m.main(sys.argv[1:])\nfinally: print(*sys.modules)"
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [PYTHON, "-c", script, *words, "--no-sandbox", "--base-url", write_recording(tmp_path / "model", "true")],
        env={"PATH": os.defpath, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {name for name in done.stdout.splitlines()[-1].split() if name.partition(".")[0] == "odek"}
    assert {"odek.agent.loop", "odek.app.tools", "odek.danger.classify"} <= imported
    assert {name for name in imported if "mcp" in name or name == "odek.approval.servers"} == set()
    assert {name for name in imported if "deleg" in name} == {"odek.tools.delegate"}  # the row of the tool alone
    assert imported - compiled_ahead == {"odek.model.replay"}  # the recording that takes a server's place here


def test_launcher_and_restart_start_the_same_code() -> None:
    launcher = (ROOT / "build" / "launcher.sh").read_text()
    again = (ROOT / "build" / "boot" / "odekagain.py").read_text()
    started = re.findall(r"'(import sys,[^']*)'", launcher)
    assert started == re.findall('code = r"""(.*?)"""', again, re.DOTALL) != []


# --- every way to start it


def by_path(file: Path, folder: Path) -> list[str]:
    return [str(file)]


def by_symlink(file: Path, folder: Path) -> list[str]:
    (folder / "link").symlink_to(file)
    return [str(folder / "link")]


def by_relative_path(file: Path, folder: Path) -> list[str]:
    shutil.copy(file, folder / "odek")
    return ["./odek"]


def by_path_with_odd_characters(file: Path, folder: Path) -> list[str]:
    place = folder / "a b'c\"d:e*f"
    place.mkdir()
    return [shutil.copy(file, place / "odek it")]


def by_shell(file: Path, folder: Path) -> list[str]:
    return ["/bin/sh", str(file)]


def by_shell_and_name(file: Path, folder: Path) -> list[str]:
    shutil.copy(file, folder / "odek")
    return ["/bin/sh", "odek"]


def by_python(file: Path, folder: Path) -> list[str]:
    return [PYTHON, str(file)]


def by_python_and_name(file: Path, folder: Path) -> list[str]:
    shutil.copy(file, folder / "odek")
    return [PYTHON, "odek"]


@pytest.mark.parametrize(
    "way",
    [
        by_path,
        by_symlink,
        by_relative_path,
        by_path_with_odd_characters,
        by_shell,
        by_shell_and_name,
        by_python,
        by_python_and_name,
    ],
)
def test_runs_isolated_with_its_arguments(
    way: Callable[[Path, Path], list[str]], built: Path, bin_folder: Path, tmp_path: Path
) -> None:
    """R-91, R-92: no site, no PYTHON variables, however it is started."""
    argv = way(built, tmp_path)
    done = start(*argv, "-c", "a b", "", "--", "-x", path=bin_folder, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    facts = json.loads(done.stdout)
    assert facts["argv"] == ["-c", "a b", "", "--", "-x"]
    assert os.path.isabs(facts["argv0"])
    assert os.path.samefile(facts["argv0"], tmp_path / argv[-1])
    assert facts["flags"] == [1, 1, 1]
    assert (facts["by_loader"], facts["by_pkgutil"]) == ("a note\n", "a note\n")


SHELLS = [name for name in ("dash", "bash", "busybox", "zsh") if shutil.which(name)]


def as_sh(shell: str) -> list[str]:
    """Return the command that starts `shell` as it is where /bin/sh leads to it."""
    arguments = {"busybox": ["sh"], "bash": ["--posix"], "zsh": ["--emulate", "sh"]}
    return [shutil.which(shell) or "", *arguments.get(shell, [])]


@pytest.mark.parametrize("shell", SHELLS)
def test_launcher_runs_in_every_shell(shell: str, built: Path, bin_folder: Path, tmp_path: Path) -> None:
    done = start(*as_sh(shell), built, "x", path=bin_folder, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")


def test_sources_serve_when_nothing_is_compiled_for_this_python(
    builder: ModuleType, source: Path, bin_folder: Path, tmp_path: Path
) -> None:
    content, _ = builder.build(source, [], strict=True)
    builder.write_executable(tmp_path / "odek", content)
    done = start(tmp_path / "odek", "x", path=bin_folder, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    facts = json.loads(done.stdout)
    assert (facts["by_loader"], facts["by_pkgutil"]) == ("a note\n", "a note\n")


@pytest.mark.parametrize(
    ("env", "compiled_at_start"),
    [({}, ["odek/later.py"]), ({"ODEK_DEBUG": ""}, ["odek/facts.py", "odek/data/__init__.py", "odek/later.py"])],
)
def test_what_a_run_needs_is_compiled_ahead_and_with_debug_nothing(
    env: Mapping[str, str], compiled_at_start: list[str], built: Path, bin_folder: Path, tmp_path: Path
) -> None:
    """Tracebacks are to have lines: only the sources have them."""
    done = start(built, "compiled", path=bin_folder, cwd=tmp_path, env=env)
    assert (done.returncode, json.loads(done.stdout)) == (0, compiled_at_start)


def test_for_a_python_that_only_starts_are_compiled_for_the_sources_do_the_rest(
    builder: ModuleType, source: Path, bin_folder: Path, tmp_path: Path
) -> None:
    _, (compiled,) = builder.build(source, [PYTHON], strict=True)
    members = builder.compiled_members([replace(compiled, base=b"", run=b"", later=b"")])
    assert list(members) == [f"compiled/{importlib.util.MAGIC_NUMBER.hex()}"]
    sources = builder.source_members(builder.find_package(source))
    boot = {path.name: path.read_bytes() for path in (ROOT / "build" / "boot").glob("*.py")}
    boot["odekload.py"] = builder.deflate(boot["odekload.py"])
    content = builder.zip_archive({**boot, **members, **sources}, prefix=(ROOT / "build" / "launcher.sh").read_bytes())
    builder.write_executable(tmp_path / "odek", content)
    done = start(tmp_path / "odek", "compiled", path=bin_folder, cwd=tmp_path)
    assert json.loads(done.stdout) == ["odek/facts.py", "odek/data/__init__.py", "odek/later.py"]
    assert start(tmp_path / "odek", "x", path=bin_folder, cwd=tmp_path).returncode == 7


def unpack(member: bytes) -> bytes:
    index, _, stream = member.partition(b"\n")
    if index.decode("latin-1").partition(" ")[2].isdigit():
        filters: list[dict[str, int]] = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 22}]
        return lzma.decompress(stream, lzma.FORMAT_RAW, filters=filters)
    return zlib.decompress(member, -15)


def test_texts_in_the_code_are_kept_once_for_all_pythons(builder: ModuleType, source: Path) -> None:
    """What two interpreters write begins alike; here one of them stands for both."""
    files = builder.find_package(source)
    alone = builder.compile_package(PYTHON, files)
    one, other = (replace(builder.compile_package(PYTHON, files, alone.texts), later=b"") for _ in range(2))
    changed = replace(other, magic="x", base=one.base + b"less", run=one.run + b"more")
    members = builder.compiled_members([one, changed])
    assert members.pop("compiled/later")[:1] == b"\n"
    found = {name: unpack(member) for name, member in members.items()}
    assert [b"north" in found[f"compiled/{name}"] for name in ("texts.base", "texts")] == [True, False]
    assert [b"of a run alone" in found[f"compiled/{name}"] for name in ("texts.base", "texts")] == [False, True]
    assert found["compiled/x.run"] == b"more"
    assert (found["compiled/x.base"][-4:], b"north" in found["compiled/x.base"]) == (b"less", False)


def test_what_is_needed_last_is_in_one_stream_for_all_pythons(
    builder: ModuleType, source: Path, bin_folder: Path, tmp_path: Path
) -> None:
    """D-27: the most usual first, which then is all that it unpacks; a Python finds its own part wherever that is."""
    files = builder.find_package(source)
    mine = builder.compile_package(PYTHON, files, builder.compile_package(PYTHON, files).texts)
    usual = [version for version in builder.FIRST_OF_LATER if version != mine.version]
    older, newer = (replace(mine, magic=usual[at], version=usual[at], later=mine.later * 2) for at in (3, 0))
    index, _, _ = builder.compiled_members([older, mine, newer])["compiled/later"].partition(b"\n")
    made = {one.version: one.magic for one in (older, mine, newer)}
    assert index.decode().split()[::2] == [made[version] for version in builder.FIRST_OF_LATER if version in made]
    assert sorted(builder.FIRST_OF_LATER) == sorted(builder.VERSIONS)
    sizes = [len(builder.chain({str(i): mine.later for i in range(count)})) for count in (1, 5)]
    assert sizes[1] < sizes[0] * 1.5
    boot = {path.name: path.read_bytes() for path in (ROOT / "build" / "boot").glob("*.py")}
    boot["odekload.py"] = builder.deflate(boot["odekload.py"])
    members = {**boot, **builder.source_members(builder.find_package(source))}
    members.update(builder.compiled_members([older, mine, newer]))
    content = builder.zip_archive(members, prefix=(ROOT / "build" / "launcher.sh").read_bytes())
    builder.write_executable(tmp_path / "odek", content)
    done = start(tmp_path / "odek", "parts", path=bin_folder, cwd=tmp_path)
    assert json.loads(done.stdout) == [["texts", "run", "later"], ["later"], []]


def test_a_start_unpacks_no_more_than_it_wants(built: Path, bin_folder: Path, tmp_path: Path) -> None:
    """R-171: a command that reads settings, and `odek mcp` until it answers, need not make the code of a run."""
    done = start(built, "parts", path=bin_folder, cwd=tmp_path)
    assert json.loads(done.stdout) == [["texts", "run", "later"], ["later"], []]


def test_data_classes_are_written_out_at_build_time_and_behave_the_same(
    built: Path, source: Path, bin_folder: Path, tmp_path: Path
) -> None:
    """D-27: all of odek's (test_write_classes.py); one with more than the build knows, such as Mutable, stays."""
    from_source = "import sys; sys.path.insert(0, sys.argv.pop(1)); from odek.cli.main import main; main(sys.argv[1:])"
    packed = start(built, "records", path=bin_folder, cwd=tmp_path)
    plain = start(PYTHON, "-X", "utf8", "-I", "-S", "-B", "-c", from_source, source, "records", path="", cwd=tmp_path)
    behaviour, compiled = json.loads(packed.stdout)
    expected, written = json.loads(plain.stdout)
    assert behaviour == expected
    made = [
        [any(default in text for text in texts) for default in ("dflt_y", "dflt_items")]
        for texts in (compiled, written)
    ]
    assert made == [[False, True], [True, True]]


def test_inspect_is_loaded_when_something_of_it_is_used(built: Path, bin_folder: Path, tmp_path: Path) -> None:
    """R-253: dataclasses imports it, and needs nothing of it for classes that were compiled ahead."""
    done = start(built, "inspect", path=bin_folder, cwd=tmp_path)
    late, *after = json.loads(done.stdout)
    assert late == ["LateInspect", False]
    assert after == [["a"], True, True]


LOADED = (
    "import sys, zipimport, zlib\nfile, magic = sys.argv[1:]\narchive, scope = zipimport.zipimporter(file), {}\n"
    "exec(zlib.decompress(archive.get_data(file + '/odekload.py'), -15), scope)\n"
    "scope['install'](file, archive, {}, magic)\n"
)
"""what a script begins with that imports odek from the one file named by its first argument"""


def test_fields_of_a_compiled_class_load_no_inspect(whole: str) -> None:
    """R-253: the events of a turn are looked through for secrets by their fields; it took 10 ms of each run."""
    script = (
        f"{LOADED}"
        "from odek.events import Notice\nfrom odek.redact import Redactor\n"
        "from odek.redacted_events import RedactedEvents\n"
        "(seen,) = RedactedEvents(Redactor(())).take(Notice('hello'))\n"
        "print(seen.text, type(sys.modules['inspect']).__name__)"
    )
    command = [PYTHON, "-X", "utf8", "-I", "-S", "-c", script, whole, importlib.util.MAGIC_NUMBER.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "hello LateInspect\n"


@pytest.mark.parametrize(
    ("env", "left"),
    [
        ({}, [None, None, ".", {}, "on purpose", 0]),
        ({"ODEK_DEBUG": "1"}, [None, None, ".", {}, "on purpose", 15]),
    ],
)
def test_code_is_trimmed_and_keeps_asserts(
    env: Mapping[str, str], left: list[object], built: Path, bin_folder: Path, tmp_path: Path
) -> None:
    done = start(built, "trimmed", path=bin_folder, cwd=tmp_path, env=env)
    assert json.loads(done.stdout) == left


def test_python_without_lzma_compiles_what_it_cannot_read(whole: str) -> None:
    """D-27: one that was built without that library; the whole odek, for the stand-in has no such part."""
    script = (
        f"{LOADED}"
        "sys.addaudithook(lambda event, values: event == 'compile' and print(values[1]))\n"
        "import odek.danger.classify"
    )
    magic = importlib.util.MAGIC_NUMBER.hex()
    for lines, compiled in (("", False), ("import sys\nsys.modules['_lzma'] = None\n", True)):
        command = [PYTHON, "-X", "utf8", "-I", "-S", "-c", lines + script, whole, magic]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("odek/danger/classify.py" in done.stdout) is compiled


@pytest.mark.parametrize(
    "content",
    [b"", b"a", b"a" * 5000, bytes(range(256)) * 3, random.Random(1).randbytes(3000), Path(__file__).read_bytes() * 2],
    ids=["nothing", "one", "overlaps", "bytes", "random", "text"],
)
def test_sources_can_be_read_without_lzma(builder: ModuleType, content: bytes) -> None:
    """D-27: the longest matches, the farthest, those that overlap themselves, and what cannot be compressed."""
    slow = runpy.run_path(str(ROOT / "build" / "boot" / "odekslow.py"))
    packed = lzma.compress(content, lzma.FORMAT_ALONE, filters=builder.LZMA_OF_SOURCES)
    assert slow["decompress"](packed) == content


def test_sources_of_what_was_compiled_are_not_unpacked_for_other_commands(whole: str) -> None:
    """R-253: they are most of the sources, and in LZMA."""
    script = (
        f"{LOADED}"
        "import odek.cli.commands.config, odek.agent.loop\nloader = odek.__loader__\n"
        "print(len(loader.sources) > 0, len(loader.all_sources), loader.get_source('odek.agent.loop').split()[:2])"
    )
    command = [PYTHON, "-X", "utf8", "-I", "-S", "-c", script, whole, importlib.util.MAGIC_NUMBER.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True 0 ['from', '__future__']\n"


@pytest.mark.parametrize("argument", ["version", "--help"])
def test_first_part_is_all_that_a_short_start_needs(argument: str, whole: str) -> None:
    """R-253: no source is compiled for it, and no further part is read."""
    script = (
        "import atexit, sys, zipimport\nfile = sys.argv[1]\narchive, scope = zipimport.zipimporter(file), {}\n"
        "exec(archive.get_data(file + '/odekboot.py'), scope)\ncompiled = []\n"
        "def tell(): print(compiled, any(sys.modules['odek'].__loader__.packed), file=sys.stderr)\n"
        "atexit.register(tell)\n"
        "sys.addaudithook(lambda event, values: event == 'compile' and compiled.append(values[1]))\n"
        "scope['start'](archive)"
    )
    command = [PYTHON, "-X", "utf8", "-I", "-S", "-c", script, whole, "", argument]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout[:4], done.stderr) == ("odek", "[] False\n")


def test_thread_that_reads_ahead_imports_nothing(whole: str) -> None:
    """R-253: an import waits for it, and holds the lock that it would need; here from its beginning."""
    script = (
        "import sys, _thread, threading, zipimport, zlib\nfile, magic = sys.argv[1:]\n"
        "archive, scope, events = zipimport.zipimporter(file), {}, []\n"
        "def begin(work, given):\n    thread = threading.Thread(target=work, args=given, daemon=True)\n"
        "    threads.append(thread.name)\n    thread.start()\n    thread.join(5)\n"
        "def note(event, _):\n    if threading.current_thread().name in threads: events.append(event)\n"
        "threads, start = [], _thread.start_new_thread\n"
        "exec(zlib.decompress(archive.get_data(file + '/odekload.py'), -15), scope)\n"
        "scope['_thread'] = type('T', (), {**vars(_thread), 'start_new_thread': staticmethod(begin)})\n"
        "scope['install'](file, archive, {}, magic)\nsys.addaudithook(note)\n"
        "try: import odek.danger.classify\nfinally: print(len(threads), events, flush=True)"
    )
    command = [PYTHON, "-X", "utf8", "-I", "-S", "-c", script, whole, importlib.util.MAGIC_NUMBER.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("1 []\n", 0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The whole odek as one file, compiled for the Python of this test run: the one under test, or a new one."""
    if program_kind() == "zip":
        with zipfile.ZipFile(ROOT / os.environ["ODEK_BIN"]) as archive:
            if f"compiled/{importlib.util.MAGIC_NUMBER.hex()}.run" in archive.namelist():
                return str(ROOT / os.environ["ODEK_BIN"])
    file = str(tmp_path_factory.mktemp("whole") / "odek")
    subprocess.run([PYTHON, ZIPAPP, "--python", PYTHON, "--output", file], check=True, capture_output=True)
    return file


def test_copy_that_is_damaged_says_so(whole: str, bin_folder: Path, tmp_path: Path) -> None:
    """R-418: a download that broke off, and each part of which the second half is lost; never as a bug of odek."""
    content = Path(whole).read_bytes()
    with zipfile.ZipFile(whole) as archive:
        infos = {info.filename: info for info in archive.infolist()}
    broken = [content[: len(content) * part // 10] for part in (1, 5, 9)] + [content[:-1]]
    magic = importlib.util.MAGIC_NUMBER.hex()
    parts = [f"compiled/{name}" for name in (magic, f"{magic}.base", f"{magic}.run", "texts.base", "texts", "later")]
    for name in (*parts, "data.gz", "source.gz", "source.lzma"):
        size = infos[name].compress_size
        end = content.index(b"PK", infos[name].header_offset + 30 + len(name) + size)
        lost = size - 200 if name.endswith("later") else size // 2  # this Python's part may be the first of those there
        broken.append(content[: end - lost] + bytes(lost) + content[end:])
    file = tmp_path / "odek"
    for number, each in enumerate(broken):
        file.write_bytes(each)
        file.chmod(0o755)
        env = {"PATH": str(bin_folder), "HOME": str(tmp_path)}
        done = subprocess.run([file, "selftest"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1, (number, done.stdout, done.stderr)
        said = f"odek: error: this copy of odek is damaged: {file}\nodek: hint: get it again\n"
        assert done.stderr == said, (number, done.stderr)


@pytest.mark.parametrize(
    "settings", [None, '{"model": "m", "sandbox_readonly": true, "limits": {"max_tool_calls": 5}}']
)
def test_an_mcp_client_waits_for_no_more_than_its_answer_needs(
    settings: str | None, whole: str, tmp_path: Path
) -> None:
    """R-171: what was imported when `initialize` was answered, with settings and with those of Docker's client."""
    (tmp_path / "work").mkdir()
    if settings is not None:
        for folder, name in ((".odek", "config.json"), (".docker", "config.json")):
            (tmp_path / folder).mkdir(mode=0o700)
            (tmp_path / folder / name).write_text(settings if folder == ".odek" else '{"auths": {}}')
    code = re.search('code = r"""(.*?)"""', (ROOT / "build" / "boot" / "odekagain.py").read_text(), re.DOTALL)
    assert code
    spy = (
        "import os, sys\nwrite = os.write\ndef show(descriptor, data):\n os.write = write\n"
        " sys.stderr.write(' '.join(sys.modules))\n return write(descriptor, data)\nos.write = show\n"
    )
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'
    done = subprocess.run(
        [PYTHON, "-X", "utf8", "-I", "-S", "-c", spy + code[1], whole, "", "mcp", "--workdir", str(tmp_path / "work")],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        input=line,
        capture_output=True,
        check=True,
    )
    assert b'"result"' in done.stdout
    loaded = set(done.stderr.decode().split())
    heavy = {
        "re",
        "enum",
        "typing",
        "dataclasses",
        "json",
        "signal",
        "argparse",
        "importlib",
        "copy",
        "math",
    }
    assert {"odek.mcp_server.server", "odek.config.settings"} <= loaded
    assert loaded & heavy == set()
    assert {name for name in loaded if name.startswith(("odek.sandbox.", "odek.cli.", "odek.app."))} <= {
        *("odek.sandbox.errors", "odek.sandbox.client_config", "odek.sandbox.workdir", "odek.app.config"),
        *("odek.app.isolation", "odek.app.shareable", "odek.cli.main", "odek.cli.streams", "odek.cli.signals"),
        *("odek.cli.look", "odek.cli.terminal", "odek.cli.commands", "odek.cli.commands.mcp"),
    }


def test_threads_may_import_at_the_same_time(built: Path, bin_folder: Path, tmp_path: Path) -> None:
    """What is compiled, and the sources, are inflated by whoever comes first."""
    done = start(built, "threads", path=bin_folder, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3, 4, 5, 6, 7]\n")


@pytest.mark.parametrize("kind", ["debug", "from source"])
def test_traceback_quotes_the_source(
    kind: str, built: Path, builder: ModuleType, source: Path, bin_folder: Path, tmp_path: Path
) -> None:
    if kind == "from source":
        built = tmp_path / "uncompiled"
        builder.write_executable(built, builder.build(source, [], strict=True)[0])
    write_tree(tmp_path, {"odek/cli/main.py": "not this\n" * 30, "cli/main.py": "nor this\n" * 30})
    env = {"ODEK_DEBUG": "1"} if kind == "debug" else {}
    done = start(built, "fail", path=bin_folder, cwd=tmp_path, env=env)
    assert f'File "{built}/odek/cli/main.py", line ' in done.stdout
    assert 'raise ValueError("a reason")' in done.stdout
    assert "this\n" not in done.stdout


def test_replacing_the_file_does_not_disturb_a_run(
    built: Path, builder: ModuleType, bin_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "odek"
    shutil.copy(built, file)
    with subprocess.Popen(
        [file, "later"],
        env={"PATH": str(bin_folder)},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        builder.write_executable(file, b"#!/bin/sh\necho another program\n")
        stdout, _ = process.communicate("\n", timeout=60)
    assert (process.returncode, stdout) == (0, "the code of the file that was started\n")


def test_launcher_becomes_the_program(built: Path, bin_folder: Path, tmp_path: Path) -> None:
    """A signal for odek must reach odek, not a shell in front of it."""
    process = subprocess.Popen(
        [built, "later"],
        env={"PATH": str(bin_folder)},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


# --- what the current folder offers is not taken


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """The file that hostile code makes when it is run."""
    return tmp_path / "hostile code ran"


@pytest.fixture
def hostile(tmp_path: Path, marker: Path) -> Path:
    """A checkout full of modules and programs that odek might take for its own."""
    code = f"open({str(marker)!r}, 'a').write(__name__)\n"
    names = "json odekboot odekload odekagain sitecustomize usercustomize zipimport marshal subprocess argparse pkgutil"
    folder = write_tree(tmp_path / "checkout", {f"{name}.py": code for name in names.split()})
    write_tree(folder, {f"{name}/__init__.py": code for name in ("odek", "encodings", "lib/python3.11")})
    write_tree(folder, {"pyvenv.cfg": f"home = {folder}\n", ".python-version": "./bin\n"})
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "sh", "env", "cat"):
        for place in (folder, folder / "bin", folder / "shims"):
            write_script(place / name, f"echo {name} >> '{marker}'")
    return folder


def test_hostile_folder_would_be_noticed(hostile: Path, marker: Path) -> None:
    """The tests below can fail: an ordinary Python takes what lies there."""
    start(PYTHON, "-c", "import json", path="/nowhere", cwd=hostile)
    assert marker.read_text() == "json"


@pytest.mark.parametrize(
    ("path", "env"),
    [
        ("{bin}", {}),
        ("{bin}", {"PYTHONPATH": "."}),
        ("{bin}", {"PYTHONPATH": "{here}:{here}/lib"}),
        ("{bin}", {"PYTHONHOME": "{here}"}),
        ("{bin}", {"PYTHONSTARTUP": "json.py", "PYTHONINSPECT": "1", "PYTHONUSERBASE": "."}),
        ("{bin}", {"PYTHONPLATLIBDIR": "lib", "PYTHONEXECUTABLE": "{here}/python3"}),
        ("{bin}", {"ENV": "./python3", "BASH_ENV": "./python3", "CDPATH": "bin:.", "IFS": "/"}),
        (":{bin}", {}),
        ("{bin}:", {}),
        ("::{bin}", {}),
        (".:{bin}", {}),
        ("bin:./bin:../checkout:{bin}", {}),
        ("{here}:{here}/bin:{bin}", {}),
        ("{here}/:{here}//bin/:{here}/../checkout/bin:{here}/./bin:{bin}", {}),
        ("{link}:{link}/bin:{link-to-bin}:{bin}", {}),
        ("{here}/shims:{link}/shims:{bin}", {}),
        ("/proc/self/cwd:/proc/self/cwd/bin:{bin}", {}),
        ("{here}/bin:{link}/bin:{bin}", {"PWD": "{link}"}),
        ("{here}/bin:{link}/bin:{bin}", {"PWD": "/nowhere"}),
    ],
)
def test_hostile_folder_is_not_run(
    path: str, env: dict[str, str], hostile: Path, marker: Path, built: Path, bin_folder: Path, tmp_path: Path
) -> None:
    """R-92: no module and no interpreter comes from the working directory."""
    link, link_to_bin = tmp_path / "link", tmp_path / "link-to-bin"
    link.symlink_to(hostile)
    link_to_bin.symlink_to(hostile / "bin")

    def fill(text: str) -> str:
        places = {"{bin}": bin_folder, "{here}": hostile, "{link}": link, "{link-to-bin}": link_to_bin}
        return re.sub(r"\{[a-z-]+\}", lambda match: str(places[match[0]]), text)

    done = start(built, "x", path=fill(path), cwd=hostile, env={name: fill(value) for name, value in env.items()})
    assert not marker.exists(), marker.read_text()
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("pwd", ["{here}", "/{here}", "{here}/../checkout", "/nowhere"])
@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_folder_is_not_run_however_a_shell_writes_it(
    shell: str, pwd: str, hostile: Path, marker: Path, built: Path, bin_folder: Path
) -> None:
    """R-92: after `cd //folder`, bash keeps both slashes, and by `cd -P //folder` as well."""
    path = f"{hostile}/bin:/{hostile}/bin:{hostile}/../checkout/bin:/proc/self/cwd/bin:{bin_folder}"
    env = {"PWD": pwd.replace("{here}", str(hostile))}
    done = start(*as_sh(shell), built, "x", path=path, cwd=hostile, env=env)
    assert not marker.exists(), marker.read_text()
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("git", ["folder", "file", "link"])
def test_repository_around_the_folder_is_not_run_either(
    git: str, hostile: Path, marker: Path, built: Path, bin_folder: Path
) -> None:
    """R-92: a sandbox of the folder above can have put an interpreter into it."""
    {"folder": Path.mkdir, "file": Path.touch, "link": lambda path: path.symlink_to("nowhere")}[git](hostile / ".git")
    below = hostile / "a" / "b"
    below.mkdir(parents=True)
    done = start(built, "x", path=f"{hostile}:{hostile}/bin:{bin_folder}", cwd=below)
    assert not marker.exists(), marker.read_text()
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("mark", [".git", ".hg", ".jj"])
@pytest.mark.parametrize("home", ["", "{here}/a", "{here}/.home/"])
def test_the_outermost_checkout_is_not_run(
    mark: str, home: str, hostile: Path, marker: Path, built: Path, bin_folder: Path
) -> None:
    """F6: started in a submodule, `node_modules/.bin` of the checkout around it is foreign as well."""
    (hostile / mark).mkdir()
    inner = hostile / "a" / "submodule"
    (inner / "deep").mkdir(parents=True)
    (inner / ".git").write_text("gitdir: ../../.git/modules/submodule\n")
    env = {"HOME": home.replace("{here}", str(hostile))} if home else {}
    done = start(built, "x", path=f"{hostile}:{hostile}/bin:{bin_folder}", cwd=inner / "deep", env=env)
    assert not marker.exists(), marker.read_text()
    assert (done.returncode, done.stderr) == (7, "")


def test_repository_that_holds_the_home_is_the_users_own(built: Path, tmp_path: Path) -> None:
    """Dotfiles kept in a repository do not take ~/.local/bin away; host.project_root has the same rule."""
    home = tmp_path / "home"
    (home / ".git").mkdir(parents=True)
    (home / "project").mkdir()
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(PYTHON)
    done = start(built, "x", path=home / "bin", cwd=home / "project", env={"HOME": str(home)})
    assert (done.returncode, done.stderr) == (7, "")


def test_hostile_folder_is_not_run_by_python_and_file(
    hostile: Path, marker: Path, built: Path, bin_folder: Path
) -> None:
    """R-92, for `python3 odek`: the folder is not searched there either."""
    done = start(PYTHON, built, "x", path=bin_folder, cwd=hostile)
    assert not marker.exists(), marker.read_text()
    assert done.returncode == 7


def test_hostile_folder_is_not_searched_when_nothing_else_is_there(hostile: Path, marker: Path, built: Path) -> None:
    """R-92: rather no odek than one that the checkout interprets."""
    done = start(built, "x", path=f"{hostile}:{hostile}/bin:{hostile}/shims::.", cwd=hostile)
    assert not marker.exists(), marker.read_text()
    assert (done.returncode, done.stdout, done.stderr) == (
        127,
        "",
        "odek: error: no Python 3.10 or newer on PATH (folders of the current project do not count)\n",
    )


def test_shim_of_a_version_manager_is_not_run_but_what_it_manages_is(built: Path, tmp_path: Path) -> None:
    """R-92: a shim obeys the checkout's .python-version; the interpreters behind it do not."""
    manager = tmp_path / "manager"
    write_script(manager / "shims" / "python3", "echo the shim; exit 9")
    (manager / "versions" / "3.10.99" / "bin").mkdir(parents=True)
    (manager / "versions" / "3.10.99" / "bin" / "python3.10").symlink_to(PYTHON)
    done = start(built, "x", path=manager / "shims", cwd=Path("/"))
    assert (done.returncode, done.stderr) == (7, "")


# --- Python too old


def test_old_python_hands_on_to_the_next(built: Path, bin_folder: Path, tmp_path: Path) -> None:
    old = pretend_version(tmp_path / "old" / "python3", "3.8.18").parent
    older = pretend_version(tmp_path / "older" / "python3", "3.6.15").parent
    broken = write_script(tmp_path / "broken" / "python3", "").parent
    (broken / "python3").write_text("#!/nowhere\n")
    done = start(built, "a b", "", path=f"{old}:{older}:{broken}:{bin_folder}", cwd=Path("/"))
    assert (done.returncode, done.stderr) == (7, "")
    assert json.loads(done.stdout)["argv"] == ["a b", ""]


def test_numbered_python_is_used_when_python3_is_old(built: Path, tmp_path: Path) -> None:
    folder = pretend_version(tmp_path / "old" / "python3", "3.9.2").parent
    (folder / "python3.11").symlink_to(PYTHON)
    done = start(built, "x", path=folder, cwd=Path("/"))
    assert (done.returncode, done.stderr) == (7, "")


def test_old_python_alone_is_named(built: Path, tmp_path: Path) -> None:
    folder = pretend_version(tmp_path / "old" / "python3", "3.8.18").parent
    done = start(built, "x", path=folder, cwd=Path("/"))
    assert (done.returncode, done.stdout) == (127, "")
    assert re.fullmatch(r"odek: error: needs Python 3\.10 or newer on PATH; found 3\.8\.18 \(.*\)\n", done.stderr)


@pytest.mark.parametrize("path", ["/nowhere", ""])
def test_no_python_is_one_sentence(path: str, built: Path, tmp_path: Path) -> None:
    done = start(built, "x", path=path, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        127,
        "",
        "odek: error: no Python 3.10 or newer on PATH (folders of the current project do not count)\n",
    )
