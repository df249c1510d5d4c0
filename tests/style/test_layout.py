"""The shape of the tree: what imports what, how long functions are, facts that stand twice.

A rule is one test; its message names every place that breaks it.
"""

from __future__ import annotations

import ast
import functools
import gzip
import random
import re
import tomllib
from collections import defaultdict

import pytest

import kfast
from kfast import schema
from kfast.journal.effects import EFFECT
from kfast.kernels import census
from tests.style.places import PACKAGE, PAGES, ROOT, SOURCES, assert_none, name_of

KERNELS = sorted((PACKAGE / "kernels").glob("*.pyx"))
TEXTS = [path for path in SOURCES if path.suffix != ".h"]
PYTHONS = [path for path in TEXTS if path.suffix == ".py"]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
"""Every Python module of the package, by its name."""

MOST_FUNCTION_LINES = 70
MOST_COLUMNS = 100

ORDER = (
    "lazy_names",
    "errors",
    "schema",
    "arguments",
    "kernels",
    "state",
    "io",
    "journal",
    "controllers",
    "figures",
    "sweeps",
    "analysis",
    "capacity",
    "replay_results",
    "log_replay",
    "metadata_replay",
    "timelines",
    "report",
    "spark",
    "cli",
    "testing",
)
"""Data flows one way: a module imports only from those before it, and from its own folder."""

STAGES = {
    "capacity": ("loads", "failures", "restorations", "placements", "planning"),
    "log_replay": (
        "log_files", "steps", "wording", "terms", "events", "lookahead", "engine", "checks",
        "brokers", "comparison", "histories", "report",
    ),
}
"""The same for the parts of these packages."""


def package_of(module):
    """The package, or the single module, just below `kfast` that a module belongs to."""
    return module.split(".")[1]


@functools.cache
def imports_of(path):
    """Names that a Python file imports, anywhere in it, with those that only type hints need."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import hides where it goes"
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return names


def module_of(name):
    """The module that an imported name is, or is in; None for what is not of the package."""
    while name not in MODULES and "." in name:
        name = name.rpartition(".")[0]
    return name if name in MODULES and name != "kfast" else None


@functools.cache
def module_graph():
    """Module to the modules of the package that it imports; the package's face is not in it."""
    return {
        module: {m for m in map(module_of, imports_of(path)) if m not in (None, module)}
        for module, path in MODULES.items()
        if module not in ("kfast", "kfast.__main__")
    }


def functions_of(text):
    """(name, lines without the docstring) of every function of a Python text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            yield node.name, length


def cython_functions(text):
    """(line of the head, lines) of every function of a Cython text, docstrings included."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if re.match(r"(cdef|cpdef|def)\b.*\(", line)]
    for head in heads:
        end = head + 1
        while end < len(lines) and (not lines[end] or re.match(r"[\s)]", lines[end])):
            end += 1
        while not lines[end - 1]:
            end -= 1
        yield lines[head], end - head


def public_functions(kernel):
    """Names that a kernel offers to Python."""
    return re.findall(
        r"^(?:def|cpdef [\w ]*?)\s*\b([a-z]\w*)\(", kernel.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_imports_flow_one_way():
    """A module imports only from those above it in docs/architecture.md, types included."""
    unplaced = [m for m in module_graph() if package_of(m) not in ORDER]
    assert_none(f"{module} is in no place of the order" for module in unplaced)
    assert_none(
        f"{module} imports {other}"
        for module, others in module_graph().items()
        for other in sorted(others)
        if ORDER.index(package_of(other)) > ORDER.index(package_of(module))
    )


@pytest.mark.parametrize("package", STAGES)
def test_stages_import_only_those_before_them(package):
    """Data flows one way within these packages too."""
    order = STAGES[package]
    parts = {
        module: module.split(".")[2]
        for module in MODULES if module.startswith(f"kfast.{package}.")
    }
    assert set(parts.values()) == set(order)
    assert_none(
        f"{module} imports {other}"
        for module, others in module_graph().items()
        for other in sorted(others & parts.keys())
        if module in parts and order.index(parts[other]) > order.index(parts[module])
    )


def test_no_modules_import_each_other_in_a_circle():
    graph = defaultdict(set, module_graph())
    for module in list(graph):
        reached, ahead = set(), list(graph[module])
        while ahead:
            other = ahead.pop()
            if other not in reached:
                reached.add(other)
                ahead.extend(graph[other])
        assert module not in reached, f"{module} imports itself by way of others"


def test_the_product_does_not_import_what_is_for_tests():
    """`kfast.testing` is for those who test against kfast."""
    assert_none(
        name_of(path)
        for path in PYTHONS
        if path.relative_to(ROOT).parts[0] in ("kfast", "kfast_command.py", "pyspark_kfast")
        and PACKAGE / "testing" not in path.parents
        and any(name.startswith("kfast.testing") for name in imports_of(path))
    )


def test_kernels_know_only_kernels():
    """A kernel may use another kernel's `.pxd`, and nothing else of kfast."""
    assert_none(
        f"{name_of(path)} imports {module}"
        for path in sorted((PACKAGE / "kernels").glob("*.p*"))
        for module in re.findall(
            r"^\s*(?:from|c?import)\s+([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        if module.startswith(".") or (
            module.split(".")[0] == "kfast"
            and not (
                module.startswith("kfast.kernels.")
                and (PACKAGE / "kernels" / f"{module.split('.')[-1]}.pxd").exists()
            )
        )
    )


def test_a_stub_stands_beside_each_kernel():
    """The stub has the kernel's public functions, each once, in the same order."""

    def stubbed(kernel):
        stub = ast.parse(kernel.with_suffix(".pyi").read_text(encoding="utf-8"))
        return [node.name for node in stub.body if isinstance(node, ast.FunctionDef)]

    assert_none(
        f"{name_of(kernel)}: {set(stubbed(kernel)) ^ set(public_functions(kernel)) or 'the order'}"
        for kernel in KERNELS
        if list(dict.fromkeys(stubbed(kernel))) != public_functions(kernel)
    )


MOST_ARGUMENTS = 8
LONG_SIGNATURES = {
    "columns.make_columns", "flat.fill_rows", "flat.list_rows", "isr.check_alterations",
    "placement.place_kafka", "policies.decide", "risk.count_safe", "risk.draw_hits",
    "risk.note_triples", "tables.list_dead",
}
"""Kernels that take more arguments still; whoever gives one a struct takes its name out."""


def test_kernels_take_few_arguments():
    """Columns that travel together are one `Columns`, what differs between versions is `Rules`."""
    found = {
        f"{kernel.stem}.{node.name}": len(node.args.args)
        for kernel in KERNELS
        for node in ast.parse(kernel.with_suffix(".pyi").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and len(node.args.args) > MOST_ARGUMENTS
    }
    assert set(found) == LONG_SIGNATURES, found


def test_every_kernel_has_its_test():
    """Each public function is named by a test, or by the reference that it is compared with."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    words = set(re.findall(r"\w+", tests))
    assert_none(
        f"{name_of(kernel)}: no test names {name}"
        for kernel in KERNELS
        for name in public_functions(kernel)
        if name not in words
    )


def test_lines_are_short():
    """No line is over 100 columns, or ends with a blank."""
    assert_none(
        f"{name_of(path)}:{number}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST_COLUMNS or line != line.rstrip()
    )


def test_functions_are_short():
    """No function has more than 70 lines; in Python its docstring does not count."""
    kernels = sorted(PACKAGE.glob("kernels/*.p[yx][xd]"))
    lengths = [(path, functions_of) for path in PYTHONS]
    lengths += [(path, cython_functions) for path in kernels]
    assert_none(
        f"{name_of(path)}: {name} has {length} lines"
        for path, functions in lengths
        for name, length in functions(path.read_text(encoding="utf-8"))
        if length > MOST_FUNCTION_LINES
    )


def test_nothing_is_left_for_later():
    """No notes to self, no switched-off checks, no swallowed errors, no debugging aids."""
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "type: " + "ignore", "break" + "point(")
    unwanted = "|".join(map(re.escape, words)) + r"|except(?: Exception| BaseException)?:"
    assert_none(
        f"{name_of(path)}: {match[0]}"
        for path in TEXTS
        for match in re.finditer(unwanted, path.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize(
    ("struct", "key", "dtype"),
    [
        ("NarrowRecord", "narrow_record", schema.record_dtype(True)),
        ("WideRecord", "wide_record", schema.record_dtype(False)),
        ("Effect", "effect", EFFECT),
    ],
)
def test_a_struct_is_the_same_in_numpy_and_in_c(struct, key, dtype):
    """Those of `kernels/slots.pxd`: size, and every field."""
    text = (PACKAGE / "kernels" / "slots.pxd").read_text(encoding="utf-8")
    body = re.search(rf"cdef struct {struct}:\n((?:    .+\n)+)", text).group(1)
    fields = [line.split() for line in body.splitlines()]
    assert [name for _, name in fields] == list(dtype.names)
    assert [kind.removesuffix("_t") for kind, _ in fields] == [str(dtype[n]) for n in dtype.names]
    assert census.layout()[key] == dtype.itemsize


def test_codes_are_the_same_in_python_and_in_c():
    """The enums of `kernels/slots.pxd` have the numbers of `schema.py`."""
    text = (PACKAGE / "kernels" / "slots.pxd").read_text(encoding="utf-8")
    in_c = {
        name: int(value) for name, value in re.findall(r"^    ([A-Z_]+) = (-?\d+)$", text, re.M)
    }
    expected = {code.name: int(code) for code in schema.Code}
    expected |= {f"P_{state.name}": int(state) for state in schema.PartitionState}
    expected |= {f"R_{state.name}": int(state) for state in schema.ReplicaState}
    expected |= {
        n: v
        for n, v in vars(schema).items()
        if re.match("(FLAG|BROKER|TOPIC|KIND|TALLY)_", n) and n.isupper() and isinstance(v, int)
    }
    expected["NO_LEADER"] = schema.NO_LEADER
    assert {name: in_c.get(name) for name in expected} == expected


def test_the_version_stands_once():
    """In `kfast.__version__`, which packages read; the changelog and the citation agree."""
    lines = {"CHANGELOG.md": "## {} (", "CITATION.cff": "version: {}\n"}
    for page, line in lines.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "\n" + line.format(kfast.__version__) in text, page


def test_the_readme_says_what_the_project_says():
    """README: the Python versions, and the two commands to begin with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    versions = [f"3.{minor}" for minor in range(int(low), int(high))]
    listed = [c.split(" :: ")[-1] for c in project["classifiers"] if ":: Python :: 3" in c]
    assert listed == versions
    assert f"{versions[0]} to {versions[-1]}" in text
    assert 0 < text.index("make demo") < text.index("make test")


def test_public_names_are_there():
    """`kfast.__all__` is what kfast offers, each name once."""
    assert len(set(kfast.__all__)) == len(kfast.__all__)
    for name in kfast.__all__:
        assert getattr(kfast, name) is not None


def test_bench_data_is_what_its_maker_makes():
    """`bench_data/make.py` gives the files beside it, and its README counts them right."""
    from bench_data import make

    folder = ROOT / "bench_data"
    text = make.describe(random.Random(2024))
    assert (folder / "describe.txt").read_text(encoding="utf-8") == text
    counts = (len(make.RACK_OF), text.count("PartitionCount:"), text.count("Partition: "))
    words = "{} brokers, {} topics, {} partitions".format(*counts)
    assert words in (folder / "README.md").read_text(encoding="utf-8")
    later = gzip.decompress((folder / "describe_later.txt.gz").read_bytes()).decode()
    assert later == make.later(text, make.plan(text))


def test_nothing_names_this_machine():
    """No absolute path of a developer's machine stands in any file."""
    assert_none(
        name_of(path)
        for path in [*SOURCES, *PAGES, ROOT / "Makefile"]
        if re.search(r"/(home|root|work)/", path.read_text(encoding="utf-8"))
    )
