"""What runs say of the sources they were trained with."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no clone")
def test_an_archive_knows_its_commit(tmp_path):
    def git(*words, **given):
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, **given).stdout

    archive = git("archive", "HEAD", "src/mico", ".gitattributes")
    subprocess.run(["tar", "x"], cwd=tmp_path, input=archive, check=True)
    asked = "from mico.deep.training import run_folder; print(run_folder.__file__, run_folder._commit())"
    found = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "src")}, capture_output=True
    )
    file, commit = found.stdout.decode().split()
    assert Path(file).is_relative_to(tmp_path)
    assert commit == git("rev-parse", "HEAD", text=True).strip()
