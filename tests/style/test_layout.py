"""The shape of the tree: what imports what, how long functions are, facts that stand twice."""

from __future__ import annotations

import ast
import random
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kfast
from kfast import schema
from kfast.kernels import census

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kfast"
KERNELS = sorted((PACKAGE / "kernels").glob("*.pyx"))
TEXTS = sorted(
    path
    for folder in ("kfast", "pyspark_kfast", "tests", "benchmarks", "bench_data")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyx", ".pxd", ".pyi"}
)
TEXTS.append(ROOT / "kfast_command.py")
PYTHONS = [path for path in TEXTS if path.suffix == ".py"]

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
    "sweeps",
    "analysis",
    "log_replay",
    "report",
    "spark",
    "cli",
    "testing",
)
"""Data flows one way: a module imports only from those before it, and from its own folder."""


def name_of(path):
    """A file's name in messages and test ids."""
    return path.relative_to(ROOT).as_posix()


HINTS_APART = {"journal", "sweeps"}
"""Folders in which types may still come from below."""

CIRCULAR = {"cli", "io", "journal", "log_replay", "spark", "state"}
"""Folders in which modules still import each other in a circle."""


def imports_of(path, *, hints=True):
    """Names that a Python file imports, anywhere in it; on request without what is for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    apart = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    for node in ast.walk(tree):
        if node in apart and not hints:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import hides where it goes"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name_of)
def test_imports_flow_one_way(path):
    """A module imports only from those above it in docs/architecture.md, types included."""
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    if inside in {("__init__",), ("__main__",)}:
        return
    own = ORDER.index(inside[0])
    for module in imports_of(path, hints=inside[0] not in HINTS_APART):
        parts = module.split(".")
        if parts[0] != "kfast" or len(parts) == 1:
            continue
        assert parts[1] in ORDER or parts[1].startswith("__"), f"{module} is in no order"
        if parts[1] in ORDER:
            allowed = ORDER.index(parts[1]) < own or (parts[1] == inside[0] and len(inside) > 1)
            assert allowed, f"{name_of(path)} imports {module}"


def import_graph():
    """Modules of the package, and those that each imports; a face stands for what it shows."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    named = {module: set(imports_of(path)) for module, path in paths.items()}
    faces = {
        f"{module}.{name.rpartition('.')[2]}": name
        for module, path in paths.items() if path.name == "__init__.py" for name in named[module]
    }

    def home(name):
        while name not in paths and faces.get(name, name) != name:
            name = faces[name]
        return name if name in paths else name.rpartition(".")[0]

    return {module: {home(n) for n in names} & paths.keys() for module, names in named.items()}


def test_no_modules_import_each_other_in_a_circle():
    """What only type hints need counts, and so does what a function imports when it is called."""
    graph = import_graph()
    sorter = TopologicalSorter(
        {module: reached - {module} for module, reached in graph.items()
         if module.split(".")[1:2] != [] and module.split(".")[1] not in CIRCULAR}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").glob("*.p*")), ids=name_of)
def test_kernels_know_only_kernels(path):
    """A kernel may use another kernel's `.pxd`, and nothing else of kfast."""
    for module in re.findall(
        r"^\s*(?:from|c?import)\s+([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        assert not module.startswith("."), f"{module}: a relative import"
        if module.split(".")[0] == "kfast":
            declared = PACKAGE / "kernels" / f"{module.split('.')[-1]}.pxd"
            assert module.startswith("kfast.kernels."), module
            assert declared.exists(), module


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
def test_a_stub_stands_beside_each_kernel(kernel):
    """The stub has the kernel's public functions, each once, in the same order."""
    stub = ast.parse(kernel.with_suffix(".pyi").read_text(encoding="utf-8"))
    stubbed = [node.name for node in stub.body if isinstance(node, ast.FunctionDef)]
    assert list(dict.fromkeys(stubbed)) == public_functions(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
def test_every_kernel_has_its_test(kernel):
    """Each public function is named by a test, or by the reference that it is compared with."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for name in public_functions(kernel):
        assert re.search(rf"\b{name}\b", tests), f"name {name} in the test that covers it"


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_lines_are_short(path):
    """No line is over 100 columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        assert len(line) <= MOST_COLUMNS, f"line {number}"
        assert line == line.rstrip(), f"line {number} ends with a blank"


@pytest.mark.parametrize("path", PYTHONS, ids=name_of)
def test_functions_are_short(path):
    """No function has more than 70 lines, its docstring apart."""
    for name, length in functions_of(path.read_text(encoding="utf-8")):
        assert length <= MOST_FUNCTION_LINES, f"{name} has {length} lines"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("kernels/*.p[yx][xd]")), ids=name_of)
def test_kernel_functions_are_short(path):
    """No function of a kernel has more than 70 lines."""
    for head, length in cython_functions(path.read_text(encoding="utf-8")):
        assert length <= MOST_FUNCTION_LINES, f"{head} has {length} lines"


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_nothing_is_left_for_later(path):
    """No notes to self, no switched-off checks, no swallowed errors, no debugging aids."""
    text = path.read_text(encoding="utf-8")
    for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X", "type: " + "ignore", "break" + "point("):
        assert word not in text, word
    assert not re.search(r"except( Exception| BaseException)?:", text)


@pytest.mark.parametrize("narrow", [True, False], ids=["narrow", "wide"])
def test_the_record_is_the_same_in_numpy_and_in_c(narrow):
    """`schema.record_dtype` and the struct in `kernels/slots.pxd`: size, and every field."""
    dtype = schema.record_dtype(narrow)
    struct = "NarrowRecord" if narrow else "WideRecord"
    text = (PACKAGE / "kernels" / "slots.pxd").read_text(encoding="utf-8")
    body = re.search(rf"cdef struct {struct}:\n((?:    .+\n)+)", text).group(1)
    fields = [line.split() for line in body.splitlines()]
    assert [name for _, name in fields] == list(dtype.names)
    assert [kind.removesuffix("_t") for kind, _ in fields] == [str(dtype[n]) for n in dtype.names]
    assert census.layout()["narrow_record" if narrow else "wide_record"] == dtype.itemsize


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
        if n.startswith(("FLAG_", "BROKER_", "TOPIC_")) and n.isupper() and isinstance(v, int)
    }
    expected["NO_LEADER"] = schema.NO_LEADER
    assert {name: in_c.get(name) for name in expected} == expected


def test_the_version_stands_once():
    """`pyproject.toml`, the changelog and `kfast.__version__` agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert kfast.__version__ == project["version"]
    assert re.search(
        rf"^## {re.escape(project['version'])}\b",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.M,
    )


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


def test_the_incident_is_what_its_maker_makes(tmp_path):
    """`bench_data/incident` has the files that `replay_story.py` writes, and no others."""
    from tests.support.replay_story import write_logs

    def texts(folder):
        return {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in folder.rglob("*") if path.is_file()
        }

    assert texts(write_logs(tmp_path)) == texts(ROOT / "bench_data" / "incident")


def test_nothing_names_this_machine():
    """No absolute path of a developer's machine stands in any file."""
    for path in [*TEXTS, *ROOT.glob("*.md"), *Path(ROOT, "docs").rglob("*.md"), ROOT / "Makefile"]:
        assert not re.search(r"/(home|root|work)/", path.read_text(encoding="utf-8")), name_of(path)
