"""What names and messages of others do to a terminal: nothing."""

import io
import json
import warnings

import pytest
from rich.table import Table

from mico import cli
from mico.cli.text import PlainConsole
from mico.sweeps.status import STATUS_FOLDER
from small_sweeps import pair_of_fleets
from written_runs import write_run

# A title (OSC), the same in one byte (C1), a bell, the cursor up, text from right to left, half of a surrogate pair.
SIGNS = ("\x1b]0;PWN\x07", "\x9d0;PWN\x9c", "\a", "\x1b[1A", "\u202e", "\ud800")


def shown(*renderables):
    file = io.StringIO()
    PlainConsole(file=file, width=200, force_terminal=True, color_system=None).print(*renderables)
    return file.getvalue()


@pytest.mark.parametrize("sign", SIGNS)
def test_a_console_prints_no_control_character_of_others(sign):
    table = Table(title=f"t{sign}t")
    table.add_column(f"c{sign}c")
    table.add_row(f"a{sign}b")
    for text in (shown(f"a{sign}b [bold]x[/bold]"), shown(table)):
        assert not set(sign) - set("PWN0;]A[1") & set(text)
        assert "�" in text
    assert "[bold]x[/bold]" in shown("[bold]x[/bold]")
    assert shown("two\nlines") == "two\nlines\n"


@pytest.mark.parametrize("sign", SIGNS)
def test_messages_hold_no_control_characters(capsys, monkeypatch, sign):
    """Colours, which Gymnasium gives its warnings, go; all else shows where something was."""
    monkeypatch.setattr("mico.cli.list.main", lambda argv: warnings.warn(f"\x1b[33ma{sign}b\x1b[0m", stacklevel=1))
    cli.main(["list"])
    with pytest.raises(SystemExit):
        cli.main([f"li{sign}st"])
    said = capsys.readouterr().err
    assert said.startswith("mico: a�")
    assert all(letter.isprintable() for letter in said.replace("\n", ""))
    assert said.count("\n") == 2


def test_states_of_fleets_and_names_of_folders_reach_no_terminal(tmp_path, capsys):
    fleets = pair_of_fleets(tmp_path / "runs")
    state = {"state": "failed", "step": 0, "returns": [], "error": SIGNS[0] + SIGNS[-1], "details": ""}
    (tmp_path / "runs" / STATUS_FOLDER).mkdir()
    (tmp_path / "runs" / STATUS_FOLDER / f"{fleets[0].name}.json").write_text(json.dumps(state))
    write_run(tmp_path / "runs" / f"fleet{SIGNS[0]}" / "run", [1.0, 2.0])
    cli.main(["report", str(tmp_path / "runs"), "--resamples", "100", "--out", str(tmp_path / f"out{SIGNS[1]}")])
    printed = capsys.readouterr().out
    assert f"{fleets[0].name} failed: �]0;PWN��" in printed
    assert all(letter.isprintable() for letter in printed.replace("\n", ""))
    assert (tmp_path / f"out{SIGNS[1]}" / "report.html").is_file()
