"""What runs say of the sources they were trained with: in a checkout, an archive and an installed package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no clone")
ASK = """
from mico.deep.training import run_folder
origin = run_folder._origin()
print(run_folder.__file__, origin["commit"], origin["versions"]["mico-rl"])
"""


def git(*words, cwd=ROOT, **given):
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, **given).stdout


def ask(source):
    """The file that is asked, the commit and the version that it says."""
    found = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=source.parent,
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    file, commit, version = found.stdout.split()
    assert Path(file).is_relative_to(source)
    return commit, version


@pytest.fixture(scope="module")
def commit():
    return git("rev-parse", "HEAD", text=True).strip()


@pytest.fixture
def archive(tmp_path):
    """What `git archive` makes of the sources."""
    packed = git("archive", "HEAD", "src/mico", ".gitattributes")
    subprocess.run(["tar", "x"], cwd=tmp_path, input=packed, check=True)
    return tmp_path


def test_an_archive_knows_its_commit(archive, commit):
    assert ask(archive / "src")[0] == commit


def test_a_checkout_knows_its_commit_and_whether_it_was_changed(tmp_path, commit):
    tree = tmp_path / "tree"
    git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(tree))
    git("checkout", "--quiet", "--detach", commit, cwd=tree)
    assert ask(tree / "src")[0] == commit
    with (tree / "src" / "mico" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert ask(tree / "src")[0] == f"{commit}-dirty"


def test_an_installed_package_knows_its_version_and_no_commit(tmp_path):
    """Its files as a wheel holds them, the metadata beside them, and no repository above them."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "src" / "mico", site / "mico", ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "mico_rl-9.8.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mico-rl\nVersion: 9.8.7\n")
    assert ask(site) == ("None", "9.8.7")
