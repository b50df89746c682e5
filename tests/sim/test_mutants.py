"""Mechanical mutants: the changes of the operators, samples, kept verdicts, equivalent mutants."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from anabranch.sim.mutants import equivalent, mechanical
from anabranch.sim.mutants import suite as suite_module
from anabranch.sim.mutants.compiled import NotCompiled, compile_tree
from anabranch.sim.mutants.mechanical import Judged, Results, report, sample
from anabranch.sim.mutants.operators import Mutant, mutants_of
from anabranch.sim.mutants.seeds import Caught
from anabranch.sim.mutants.suite import NEEDED, TESTS, Suite, Verdict
from anabranch.sim.mutants.tree import (
    ROOT,
    copy_tree,
    environment,
    forget_compiled,
    is_compiled,
    mutated,
    python,
    write_source,
)


def changes(source: str) -> list[str]:
    """The changed line of each mutant of a function with that body."""
    body = "".join(f"    {line}\n" for line in source.splitlines())
    return sorted(mutant.after for mutant in mutants_of("m.py", "def f(self):\n" + body))


def test_comparisons_change_at_the_boundary_and_to_their_negation() -> None:
    assert changes("x = a < b") == ["x = a <= b", "x = a >= b"]
    assert changes("x = a is not None") == ["x = a is None"]
    assert changes("x = a <= b < c") == [
        "x = a < b < c",
        "x = a <= b <= c",
        "x = a <= b >= c",
        "x = a > b < c",
    ]


def test_arithmetic_and_constants() -> None:
    assert changes("x = a + b") == ["x = a - b"]
    assert changes("x = 5") == ["x = 4", "x = 6"]
    assert changes("x = -y") == ["x = y"]
    assert changes("x = True") == ["x = False"]


def test_logic() -> None:
    assert changes("x = a and b") == ["x = a or b"]
    assert changes("x = not a") == ["x =  a"]
    assert changes("if ready:\n    x = a") == ["if not ready:"]
    assert changes("if a in b:\n    x = a") == ["if not a in b:"]
    assert changes("if a == b:\n    x = a") == ["if a != b:"], "it is negated once"
    assert changes("if not a:\n    x = a") == ["if  a:"], "it is negated once"


def test_loops() -> None:
    assert changes("for a in b:\n    continue") == ["break", "for a in []:"]


def test_statements_are_left_out() -> None:
    lines = ["a = g()", "self.b = a", "self.c(a)", "a[b] = c", "a += b", "del a[b]", "raise a"]
    source = "def f(self):\n" + "".join(f"    {line}\n" for line in lines)
    left_out = [mutant.before for mutant in mutants_of("m.py", source) if mutant.after == "pass"]
    assert left_out == lines[1:], "a variable stays"
    assert mutants_of("m.py", "class A:\n    def __init__(self):\n        self.b = c\n") == []


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""\nX: Final = 1 + 1\n',
        'def f(a: int | None = 3) -> "int | str":\n    """A docstring of 1 < 2."""\n',
        "def f():\n    _log.info(1 + 1)\n",
        "def f():\n    assert a < b\n",
        "class A:\n    __slots__ = ('a',)\n    b: dict[int, int | None]\n    c: int = 1\n",
        "def f():\n    x: int | None = y\n",
        "def f():\n    x = f'{1 + 1}'\n",
        "if TYPE_CHECKING:\n    x = 1\n",
        "def f():\n    super().__init__()\n",
        "def f():\n    x = g(\n        h,\n    )\n",
    ],
)
def test_what_decides_nothing_is_left_alone(source: str) -> None:
    assert mutants_of("m.py", source) == []


def test_methods_and_inner_functions_are_named() -> None:
    source = "class A:\n    async def f(self):\n        def g():\n            return a < b\n"
    assert {(mutant.line, mutant.where) for mutant in mutants_of("m.py", source)} == {(4, "A.f.g")}


def test_a_change_of_one_line_of_a_longer_expression() -> None:
    source = "def f():\n    if (\n        a\n        and b < c\n    ):\n        x = a\n"
    found = {(mutant.line, mutant.after) for mutant in mutants_of("m.py", source)}
    assert found == {(2, "if not ("), (4, "or b < c"), (4, "and b <= c"), (4, "and b >= c")}


@pytest.mark.parametrize(
    "path", ["crdt/spans.py", "region/engine/lifecycle.py", "region/storage/checkpoint.py"]
)
def test_mutants_of_the_product_are_other_programs_by_one_line(path: str) -> None:
    source = (ROOT / "anabranch" / path).read_text(encoding="utf-8")
    found = mutants_of(path, source)
    assert len(found) > 50
    assert len({mutant.key() for mutant in found}) == len(found)
    for mutant in found[::5]:
        changed = mutant.apply(source)
        assert mutant.is_another(source) == (
            ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        )
        before, after = source.splitlines(), changed.splitlines()
        assert [
            number
            for number, (one, other) in enumerate(zip(before, after, strict=True), 1)
            if one != other
        ] == [mutant.line]
        assert (before[mutant.line - 1].strip(), after[mutant.line - 1].strip()) == (
            mutant.before,
            mutant.after,
        )


def test_what_does_not_compile_is_no_mutant() -> None:
    source = "x = 1\n"
    assert not Mutant("m.py", 1, "", "f", "x = 1", "( = 1", 1).is_another(source)
    assert not Mutant("m.py", 1, "", "f", "x = 1", "x =  1", 1).is_another(source)
    assert Mutant("m.py", 1, "", "f", "x = 1", "x = 2", 1).is_another(source)


def test_two_lines_that_read_the_same_are_numbered() -> None:
    found = mutants_of("m.py", "def f():\n    a()\n    a()\ndef g():\n    a()\n")
    assert [(mutant.where, mutant.nth) for mutant in found] == [("f", 1), ("f", 2), ("g", 1)]


def tree(folder: Path) -> Path:
    for name, count in {
        "crdt/a.py": 40,
        "crdt/b.py": 10,
        "region/engine/c.py": 50,
        "region/storage/d.py": 0,
    }.items():
        path = folder / "anabranch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "def f():\n" + "".join(f"    x{number} = True\n" for number in range(count)),
            encoding="utf-8",
        )
    return folder


def test_a_sample_repeats_itself_and_is_in_proportion(tmp_path: Path) -> None:
    tree(tmp_path)
    chosen = sample(20, 7, tmp_path)
    assert chosen == sample(20, 7, tmp_path)
    assert chosen != sample(20, 8, tmp_path)
    assert (
        sorted(mutant.path for mutant in chosen)
        == ["crdt/a.py"] * 8 + ["crdt/b.py"] * 2 + ["region/engine/c.py"] * 10
    )
    assert len({mutant.key() for mutant in chosen}) == 20


def test_verdicts_are_kept(tmp_path: Path) -> None:
    chosen = sample(3, 1, tree(tmp_path))
    path = tmp_path / "out.jsonl"
    results = Results(path)
    assert results.of(chosen[0]).tests == ""
    results.keep(Judged(chosen[0], "survived"))
    results.keep(Judged(chosen[1], "killed", "test_x", "assert 1"))
    results.keep(Judged(chosen[0], "survived", "vectors", "no", "killed", 17))
    again = Results(path)
    assert again.of(chosen[0]) == Judged(chosen[0], "survived", "vectors", "no", "killed", 17)
    assert again.of(chosen[1]) == Judged(chosen[1], "killed", "test_x", "assert 1")
    assert again.of(chosen[2]).tests == ""


def test_the_report_counts_and_shows_survivors(tmp_path: Path) -> None:
    chosen = [mutant for mutant in sample(20, 1, tree(tmp_path)) if mutant.path == "crdt/a.py"][:5]
    verdicts = [
        ("killed", ""),
        ("survived", "killed"),
        ("survived", "survived"),
        ("uncovered", "survived"),
        ("survived", "survived"),
    ]
    judged = [
        Judged(mutant, tests, seeds=seeds)
        for mutant, (tests, seeds) in zip(chosen, verdicts, strict=True)
    ]
    lines, survivors = report(
        judged, [equivalent.Equivalent(chosen[2].key(), "the same, because …")]
    )
    assert survivors == 2
    text = "\n".join(lines)
    assert chosen[3].diff() in text and chosen[4].diff() in text and chosen[2].diff() not in text
    assert lines[-1].split() == ["all", "5", "1", "1", "1", "2", "50.0%"]


def test_equivalent_mutants_are_read() -> None:
    text = "# a comment\n\nm.py f #2\n- x = 1\n+ x = 2\n= nobody reads x\n= at all\n"
    assert equivalent.read(text) == [
        equivalent.Equivalent(("m.py", "f", 2, "x = 1", "x = 2"), "nobody reads x at all")
    ]
    with pytest.raises(ValueError, match="not complete"):
        equivalent.read("m.py f\n- x = 1\n+ x = 2\n")


def test_stale_ones_are_reported(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f():\n    x = 1\n", encoding="utf-8")
    good = equivalent.Equivalent(("m.py", "f", 1, "x = 1", "x = 0"), "nobody reads x")
    other = equivalent.Equivalent(("m.py", "f", 1, "x = 1", "x = 7"), "no operator does that")
    gone = equivalent.Equivalent(("gone.py", "f", 1, "x = 1", "x = 0"), "the file is gone")
    assert equivalent.stale([good, other, gone], tmp_path) == [other, gone]
    assert equivalent.stale([good, good], tmp_path) == [good], "named twice"


def test_the_equivalent_mutants_of_this_tree_are_not_stale() -> None:
    assert equivalent.stale(equivalent.read(equivalent.FILE.read_text(encoding="utf-8"))) == []


def test_bytecode_of_a_mutated_module_is_forgotten(tmp_path: Path) -> None:
    """A mutant has the size of its source, and often the same modification time in seconds."""
    cached = tmp_path / "__pycache__" / "m.cpython-311.pyc"
    cached.parent.mkdir()
    cached.write_bytes(b"old")
    other = tmp_path / "__pycache__" / "mm.cpython-311.pyc"
    other.write_bytes(b"old")
    write_source(tmp_path / "m.py", "x = 1\n")
    assert not cached.exists() and other.exists()
    forget_compiled(tmp_path / "m.py")


def test_a_copy_runs_interpreted_and_alone() -> None:
    found = environment(Path("/copy"))
    assert found["PYTHONPATH"] == "/copy" and found["ANABRANCH_PURE"] == "1"


def test_a_compiled_copy_runs_compiled(tmp_path: Path) -> None:
    module = tmp_path / "anabranch" / "crdt" / "one.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "anabranch" / "__init__.py").touch()
    (module.parent / "__init__.py").touch()
    write_source(module, "def twice(number: int) -> int:\n    return number * 2\n")
    assert not is_compiled(tmp_path)
    compile_tree(tmp_path)
    assert "ANABRANCH_PURE" not in environment(tmp_path)
    program = "from anabranch.crdt import one; print(one.twice(2), one.__file__[-3:])"
    for shown in ("4 .so", "6 .so"):
        ended = subprocess.run(
            [python(), "-c", program],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stdout.strip() == shown, ended.stderr
        with mutated(module, lambda text: text.replace("2", "3")):
            compile_tree(tmp_path)
    with (
        mutated(module, lambda text: text.replace("number *", "'number' +")),
        pytest.raises(NotCompiled, match="error: Unsupported operand types"),
    ):
        compile_tree(tmp_path)


def test_the_folders_of_tests_exist() -> None:
    assert all((ROOT / folder).is_dir() for folder in TESTS)


def test_a_copy_holds_all_that_its_tests_import(tmp_path: Path) -> None:
    """Once a fixture imported a package that copies lacked, and no test could run there."""
    tree = copy_tree(tmp_path, NEEDED)
    ended = subprocess.run(
        [python(), "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *TESTS],
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout.decode("utf-8", "replace")[-2000:]


HALVES = "def half(number: int) -> int:\n    return number // 2\n\n\n"
OTHER = "def third(number: int) -> int:\n    return number // 3\n"
TESTS_OF_HALVES = """
import pytest
from anabranch.crdt.halves import half, third

@pytest.mark.parametrize("number", [6], ids=["an even number"])
def test_half(number: int) -> None:
    assert half(number) == 3

def test_third() -> None:
    assert third(6) >= 2
"""


def verdict_on(mutant: Mutant, suite: Suite) -> Verdict:
    with mutated(suite.tree / "anabranch" / mutant.path, mutant.apply):
        return suite.verdict()


def test_a_mutant_is_judged_by_the_tests_that_run_its_function(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    source = HALVES + OTHER + OTHER.replace("third", "fourth")
    write_source(tree / "anabranch" / "crdt" / "halves.py", source)
    (tree / "tests" / "crdt").mkdir(parents=True)
    (tree / "tests" / "crdt" / "test_halves.py").write_text(TESTS_OF_HALVES, encoding="utf-8")
    suite = Suite(tree, tmp_path / "memory")
    suite.learn()
    verdicts = {
        (mutant.where, mutant.after): verdict_on(mutant, suite)
        for mutant in mutants_of("crdt/halves.py", source)
        if mutant.after.endswith(("* 2", "* 3", " 1", "// 2"))
    }
    failed = "tests/crdt/test_halves.py::test_half[an even number]"
    assert verdicts == {
        ("half", "return number * 2"): Verdict("killed", failed, "assert 12 == 3"),
        ("half", "return number // 1"): Verdict("killed", failed, "assert 6 == 3"),
        ("third", "return number * 3"): Verdict("survived"),
        ("third", "return number // 2"): Verdict("survived"),
        ("fourth", "return number * 3"): Verdict("uncovered"),
        ("fourth", "return number // 2"): Verdict("uncovered"),
    }
    assert (tree / "anabranch" / "crdt" / "halves.py").read_text(encoding="utf-8") == source


HALF_OR_NOTHING = """
from typing import Optional

def half(number: Optional[int]) -> int:
    if number is None:
        return 0
    return number // 2
"""
TEST_OF_NOTHING = """
from anabranch.crdt.halves import half

def test_half() -> None:
    assert half(None) == 0 and half(6) == 3
"""


def test_mutants_are_judged_in_the_compiled_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant that was not compiled would survive, since the module before it would run."""

    def copy(target: Path, extra: tuple[str, ...] = ()) -> Path:
        module = target / "anabranch" / "crdt" / "halves.py"
        module.parent.mkdir(parents=True)
        (target / "anabranch" / "__init__.py").touch()
        (module.parent / "__init__.py").touch()
        write_source(module, HALF_OR_NOTHING)
        (target / "tests" / "crdt").mkdir(parents=True)
        (target / "tests" / "crdt" / "test_halves.py").write_text(TEST_OF_NOTHING, "utf-8")
        return target

    monkeypatch.setattr(mechanical, "copy_tree", copy)
    options = mechanical.Options(
        0, 0, tmp_path / "verdicts.jsonl", jobs=1, tests_only=True, compiled=True
    )
    judges = mechanical.Judges(tmp_path / "scratch", options)
    assert is_compiled(tmp_path / "scratch" / "0")
    verdicts = {
        # mypyc knows that None cannot be divided.
        "if number is not None:": "the compiler",
        "return number // 1": "tests/crdt/test_halves.py::test_half",
    }
    mutants = mutants_of("crdt/halves.py", HALF_OR_NOTHING)
    for judged in [Judged(mutant) for mutant in mutants if mutant.after in verdicts]:
        judges.judge(judged)
        assert judged.tests == "killed" and judged.by == verdicts.pop(judged.mutant.after)
    assert not verdicts


def test_a_mutant_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it hangs or only many tests are left, the seeds of the simulator decide."""
    monkeypatch.setattr(suite_module, "CPU_MAX_S", 2)
    tree = copy_tree(tmp_path / "tree")
    source = "def f(a: int) -> int:\n    while a < 3:\n        a += 1\n    return a\n"
    write_source(tree / "anabranch" / "crdt" / "counting.py", source)
    (tree / "tests" / "crdt").mkdir(parents=True)
    (tree / "tests" / "crdt" / "test_counting.py").write_text(
        "from anabranch.crdt.counting import f\n\ndef test_f() -> None:\n    assert f(1) == 3\n",
        encoding="utf-8",
    )
    suite = Suite(tree, tmp_path / "memory")
    suite.learn()
    removed = next(one for one in mutants_of("crdt/counting.py", source) if one.after == "pass")
    assert verdict_on(removed, suite) == Verdict("survived", error="2 s of CPU time are over")


def test_a_seed_that_fails_without_the_bug_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.sim.mutants import seeds

    def run_seeds(
        tree: Path, first: int, end: int, limit_s: float, flavour: str
    ) -> tuple[Caught | None, int]:
        assert flavour == "plain"
        failing = [3, 12] if tree.name == "sound" else [3, 12, 25]
        caught = next((seed for seed in failing if first <= seed < end), None)
        return (None, end) if caught is None else (Caught(caught, "vectors", "wrong"), caught + 1)

    monkeypatch.setattr(seeds, "run_seeds", run_seeds)
    sound = seeds.Sound(Path("sound"), 1.0)
    assert seeds.first_caught(Path("planted"), range(100), sound, 1.0) == Caught(
        25, "vectors", "wrong"
    )
    assert seeds.first_caught(Path("planted"), range(20), sound, 1.0) is None
    assert sound.failing() == [3, 12]


def test_a_copy_that_runs_no_seed_is_an_error(tmp_path: Path) -> None:
    """Once a copy lacked a generated module. Each seed failed in both copies, so none counted."""
    from anabranch.sim.mutants import seeds

    trees = [copy_tree(tmp_path / name) for name in ("sound", "planted")]
    for tree in trees:
        (tree / "anabranch" / "sim" / "run.py").unlink()
    with pytest.raises(RuntimeError, match="no seed can be run without a bug: .*sim.run"):
        seeds.first_caught(trees[1], range(10), seeds.Sound(trees[0], 1.0), 1.0)


def test_seeds_with_restores_have_three_or_four_regions() -> None:
    from anabranch.sim.mutants.seeds import PLAIN, RESTORES, regions_of

    assert [regions_of(seed, RESTORES) for seed in range(4)] == [4, 3, 4, 3]
    assert [regions_of(seed, PLAIN) for seed in range(4)] == [3, 3, 3, 3]
