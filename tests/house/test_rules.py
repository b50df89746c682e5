"""Each rule of the house finds planted violations in a temporary tree; the real tree has none."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.house import rules
from tests.house.rules import (
    CHECKS,
    COUNTED,
    PACKAGES,
    ROOT,
    parsed,
    reading_orders,
    sources,
    violations,
)

REAL: Final = parsed()
LISTED: Final = {
    "anabranch/__init__.py": ("build", "cli", "crdt", "region", "sim", "sync"),
    "anabranch/cli/__init__.py": ("main",),
    "anabranch/crdt/__init__.py": ("ids",),
    "anabranch/region/__init__.py": ("driver", "engine"),
    "anabranch/region/engine/__init__.py": ("state",),
    "anabranch/sim/__init__.py": ("run", "checkers"),
    "anabranch/sim/checkers/__init__.py": ("state",),
    "anabranch/sync/__init__.py": ("hub", "wire"),
    "examples/__init__.py": ("rocket_rides",),
}


def docstring(*names: str, heading: str = "Reading order:", below: str = "\n") -> str:
    """A package's docstring that lists these names."""
    entries = "".join(f"- `{name}`: one plain sentence.\n" for name in names)
    return f'"""A package.\n\n{heading}\n{below}{entries}"""\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree without violations."""
    for name, parts in LISTED.items():
        folder = (tmp_path / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        plant(tmp_path, name, docstring(*parts))
        for part in parts:
            if f"{Path(name).parent}/{part}/__init__.py" not in LISTED:
                (folder / f"{part}.py").write_text('"""A module."""\n', encoding="utf-8")
    (tmp_path / "anabranch/sync/wire.py").unlink()
    (tmp_path / "anabranch/sync/wire").mkdir()
    plant(tmp_path, "anabranch/sync/wire/__init__.py", '"""Generated."""\n')
    return tmp_path


def plant(tree: Path, name: str, source: str) -> None:
    """Writes a source of the tree."""
    (tree / name).write_text(source, encoding="utf-8")


def lines_of(count: int, indent: str = "    ") -> str:
    return "".join(f"{indent}x = {number}\n" for number in range(count))


# -- the trees


def test_a_clean_tree_passes(tree: Path) -> None:
    assert violations(tree) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_real_tree_passes(check: object) -> None:
    assert callable(check)
    assert check(REAL) == []


def test_the_command_ends_with_0_for_the_real_tree() -> None:
    command = [sys.executable, "-m", "tests.house.rules"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout == "no violations\n"


def test_all_sources_are_seen_once(tree: Path) -> None:
    plant(tree, "anabranch/sync/wire/sync_pb2.py", "x = 1\n")
    found = list(sources(tree))
    assert len(found) == len(set(found))
    assert Path("anabranch", "sync", "wire", "sync_pb2.py") not in found
    assert {path.parts[0] for path in found} == set(PACKAGES)
    expected = {
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not path.name.endswith("_pb2.py")
    }
    assert expected == set(sources())


# -- sizes


@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_function_of_more_than_60_lines_is_found(tree: Path, word: str) -> None:
    plant(tree, "anabranch/cli/main.py", f"{word} most():\n" + lines_of(59))
    assert violations(tree) == []
    plant(tree, "anabranch/cli/main.py", f"{word} more():\n" + lines_of(60))
    assert violations(tree) == ["anabranch/cli/main.py:1: more has 61 lines"]


def test_methods_and_inner_functions_are_measured_too(tree: Path) -> None:
    method = "class A:\n    def method(self):\n" + lines_of(60, " " * 8)
    plant(tree, "anabranch/sim/run.py", method)
    assert violations(tree) == ["anabranch/sim/run.py:2: method has 61 lines"]
    plant(tree, "anabranch/sim/run.py", "def outer():\n    def inner():\n" + lines_of(60, " " * 8))
    assert violations(tree) == [
        "anabranch/sim/run.py:1: outer has 62 lines",
        "anabranch/sim/run.py:2: inner has 61 lines",
    ]


def test_a_module_of_more_than_400_lines_is_found(tree: Path) -> None:
    plant(tree, "anabranch/sim/run.py", lines_of(400, ""))
    assert violations(tree) == []
    plant(tree, "anabranch/sim/run.py", lines_of(401, ""))
    assert violations(tree) == ["anabranch/sim/run.py: it has 401 lines"]


def methods(first: int, count: int) -> str:
    """Methods of a class, every second one asynchronous."""
    words = ("def", "async def")
    return "".join(
        f"    {words[number % 2]} m{number}(self): ...\n" for number in range(first, first + count)
    )


def test_a_class_with_more_than_40_methods_is_found(tree: Path) -> None:
    plant(tree, "anabranch/cli/main.py", "class Most:\n" + methods(0, 40))
    assert violations(tree) == []
    plant(tree, "anabranch/cli/main.py", "class More:\n" + methods(0, 41))
    assert violations(tree) == ["anabranch/cli/main.py:1: More has 41 methods"]


def test_methods_of_the_whole_chain_of_bases_are_counted_once(tree: Path) -> None:
    """A class of 92 methods met the limit on attributes: its methods lay in two bases."""
    plant(tree, "anabranch/cli/main.py", "class Base:\n" + methods(0, 30))
    middle = "from anabranch.cli.main import Base as B\n\n\nclass Middle(B):\n" + methods(20, 20)
    plant(tree, "anabranch/sync/hub.py", middle)
    last = "from anabranch.sync.hub import Middle\n\n\nclass Last(Middle):\n" + methods(39, 2)
    plant(tree, "anabranch/region/driver.py", last)
    assert violations(tree) == ["anabranch/region/driver.py:4: Last has 41 methods"]


def test_a_base_is_the_class_that_the_module_imports(tree: Path) -> None:
    """Another class named Header hid that the header of a stream gave it 12 of its 51 methods."""
    plant(tree, "anabranch/crdt/ids.py", "class Header:\n" + methods(0, 21))
    source = "from anabranch.crdt.ids import Header\n\n\nclass Stream(Header):\n" + methods(21, 20)
    plant(tree, "anabranch/region/driver.py", source)
    plant(tree, "anabranch/sync/hub.py", "class Header: ...\n")
    assert violations(tree) == ["anabranch/region/driver.py:4: Stream has 41 methods"]


def fields(first: int, count: int) -> str:
    """A method that sets `count` fields."""
    names = [f"        self.f{number} = 0\n" for number in range(first, first + count)]
    return "    def __init__(self):\n" + "".join(names)


def test_a_class_with_more_than_20_attributes_is_found(tree: Path) -> None:
    plant(tree, "anabranch/region/driver.py", "class Most:\n" + fields(0, 20))
    assert violations(tree) == []
    plant(tree, "anabranch/region/driver.py", "class More:\n" + fields(0, 21))
    assert violations(tree) == ["anabranch/region/driver.py:1: More has 21 attributes"]


@pytest.mark.parametrize("package", ["crdt", "region", "sync", "sim", "cli"])
def test_classes_are_counted_in_the_packages_of_the_product(tree: Path, package: str) -> None:
    folder = Path("anabranch", package)
    module = LISTED[f"{folder}/__init__.py"][0]
    plant(tree, f"{folder}/{module}.py", "class A:\n" + fields(0, 21))
    assert len(violations(tree)) == (folder in COUNTED)


def test_inherited_attributes_count(tree: Path) -> None:
    plant(tree, "anabranch/crdt/ids.py", "class Base:\n" + fields(0, 15))
    plant(
        tree,
        "anabranch/sync/hub.py",
        "from anabranch.crdt.ids import Base\n\n\nclass Middle(Base):\n"
        + fields(15, 5)
        + "\n\nclass Last(Middle):\n    more: int\n",
    )
    assert violations(tree) == ["anabranch/sync/hub.py:13: Last has 21 attributes"]


def test_every_form_of_an_attribute_counts_once(tree: Path) -> None:
    source = (
        "class A:\n"
        "    f0: int\n" + fields(0, 15) + "    def later(self):\n"
        "        self.f15: int = 1\n"
        "        self.f16, (self.f17, *self.f18) = 1, (2, 3)\n"
        "        self.f0 += 1\n"
        "        self.f19[0] = other.f20 = 1\n"
    )
    plant(tree, "anabranch/region/driver.py", source)
    assert violations(tree) == []
    plant(tree, "anabranch/region/driver.py", source + "        self.f19 = self.f20 = 1\n")
    assert violations(tree) == ["anabranch/region/driver.py:1: A has 21 attributes"]


# -- assignments


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("engine.life = 1", "engine.life"),
        ("hub.links.open = 1", "hub.links.open"),
        ("driver.engine.state.life = 1", "driver.engine.state.life"),
        ("self.driver.work = []", "self.driver.work"),
        ("self.region.driver.life += 1", "self.region.driver.life"),
        ("state.disk.error = ''", "state.disk.error"),
        ("hub.peers[1].state = 'up'", "hub.peers.state"),
        ("self.driver.hub().count = 1", "self.driver.hub.count"),
        ("engine.life: int = 1", "engine.life"),
        ("other, engine.life = 1, 2", "engine.life"),
        ("first = engine.life = 1", "engine.life"),
        ("del engine.life", "engine.life"),
        ("for engine.life in range(3): pass", "engine.life"),
        ("with a as engine.life: pass", "engine.life"),
    ],
)
def test_an_assignment_from_outside_is_found(tree: Path, statement: str, text: str) -> None:
    plant(tree, "anabranch/cli/main.py", f"def f(self):\n    {statement}\n")
    assert violations(tree) == [f"anabranch/cli/main.py:2: {text} is set from outside"]


@pytest.mark.parametrize(
    "statement",
    [
        "self.engine = 1",
        "engine = driver = hub = 1",
        "self.life = engine.life",
        "hub.peers[1] = 2",
        "engine.execute(life=1)",
        "other.life = driver",
        "self.engines.life = 1",
    ],
)
def test_what_is_not_a_field_of_the_closed_objects_may_be_set(tree: Path, statement: str) -> None:
    plant(tree, "anabranch/cli/main.py", f"def f(self):\n    {statement}\n")
    assert violations(tree) == []


def test_some_folders_have_a_state_of_their_own(tree: Path) -> None:
    source = "def f(state, engine):\n    state.life = 1\n    engine.life = 1\n"
    for name in ("anabranch/region/engine/state.py", "anabranch/sim/checkers/state.py"):
        plant(tree, name, source)
        assert violations(tree) == [f"{name}:3: engine.life is set from outside"]
        plant(tree, name, "")
    plant(tree, "anabranch/region/driver.py", source)
    assert len(violations(tree)) == 2


# -- reading orders


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("anabranch/crdt/__init__.py", docstring(), "`ids` is listed 0 times"),
        ("anabranch/crdt/__init__.py", docstring("ids", "ids"), "`ids` is listed 2 times"),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids", "gone"),
            "`gone` is listed and does not exist",
        ),
        ("anabranch/region/__init__.py", docstring("driver"), "`engine` is listed 0 times"),
        ("anabranch/sync/__init__.py", docstring("hub"), "`wire` is listed 0 times"),
        ("anabranch/cli/__init__.py", docstring("main", "__init__"), "`__init__` is listed and"),
        (
            "anabranch/__init__.py",
            docstring("build", "cli", "region", "sim", "sync"),
            "`crdt` is listed 0 times",
        ),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids", heading="The order:"),
            "stands there 0 times",
        ),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids", heading="Reading order:\n" * 2),
            "there 2 times",
        ),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids", below=""),
            "no empty line follows the heading",
        ),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids").replace("sentence.", "sentence"),
            "not of the form",
        ),
        ("anabranch/crdt/__init__.py", docstring("ids").replace("`: ", "` "), "is not of the form"),
        (
            "anabranch/crdt/__init__.py",
            docstring("ids").replace("- `", "* `"),
            "is not of the form",
        ),
        ("anabranch/crdt/__init__.py", "", "'Reading order:' stands there 0 times"),
    ],
)
def test_a_wrong_list_is_found(tree: Path, name: str, source: str, text: str) -> None:
    plant(tree, name, source)
    found = violations(tree)
    assert found and all(line.startswith(f"{name}: ") for line in found)
    assert any(text in line for line in found), found


def test_an_unlisted_file_or_package_is_found(tree: Path) -> None:
    plant(tree, "anabranch/region/engine/new.py", "")
    assert violations(tree) == ["anabranch/region/engine/__init__.py: `new` is listed 0 times"]
    (tree / "anabranch/region/engine/new.py").unlink()
    (tree / "anabranch/region/engine/rows").mkdir()
    plant(tree, "anabranch/region/engine/rows/__init__.py", '"""A package without modules."""\n')
    assert violations(tree) == ["anabranch/region/engine/__init__.py: `rows` is listed 0 times"]


def test_entries_may_go_on_in_indented_lines_and_end_at_an_empty_line(tree: Path) -> None:
    text = docstring("ids").replace("plain ", "plain\n  ")
    plant(tree, "anabranch/crdt/__init__.py", text[:-4] + '\nMore text about `gone`.\n"""\n')
    assert violations(tree) == []


@pytest.mark.parametrize(
    "package",
    sorted(
        {str(path.parent) for path in REAL if path.name == "__init__.py"} - {"anabranch/sync/wire"}
    ),
)
def test_every_package_lists_its_files(package: str) -> None:
    prefix = f"{package}/__init__.py: "
    assert [line for line in reading_orders(REAL) if line.startswith(prefix)] == []


def test_the_real_packages_are_seen() -> None:
    packages = {str(path.parent) for path in REAL if path.name == "__init__.py"}
    expected = ["region/engine", "region/engine/commands", "region/storage", "region/driver"]
    expected += ["region/resp", "sim/world", "sim/checkers", "sim/scenario", "sync/session"]
    assert packages >= {*PACKAGES, *(f"anabranch/{name}" for name in expected)}


# -- each check alone


def test_the_checks_are_independent() -> None:
    source = (
        "class A:\n"
        + fields(0, 21)
        + methods(0, 40)
        + "\n\ndef f(engine):\n    engine.life = 1\n"
        + lines_of(400)
    )
    trees = {Path("anabranch/region/__init__.py"): ast.parse(source)}
    for check in CHECKS:
        assert len(check(trees)) == (check is not reading_orders), check
    assert len(CHECKS) == 6
    assert rules.FUNCTION_LINES_MAX == 60 and rules.MODULE_LINES_MAX == 400
    assert rules.METHODS_MAX == 40 and rules.ATTRIBUTES_MAX == 20
